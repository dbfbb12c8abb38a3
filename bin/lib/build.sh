# shellcheck shell=bash
# Builds the native library, the Java library and the examples when their sources have changed. Sourced by bin/nvrar.

# One line that changes whenever a source file does, or with the compiler of the kernels: with the first one, the library gets them.
source_fingerprint() {
  (
    cd "$NVRAR_HOME" && {
      find_nvcc || true
      find pom.xml native ray-plugin examples \
        \( -name target -o -name build -o -name model -o -name test-models -o -name __pycache__ -o -name '*.md' \) -prune \
        -o -type f -printf '%p %s %T@\n' | sort
    } | sha256sum
  )
}

# Prints the jar of the examples; the newest if several versions were built.
examples_jar() {
  local jar newest=''
  for jar in "$NVRAR_HOME"/examples/target/ray-nvrar-examples-*.jar; do
    case "$jar" in
      *-sources.jar | *-javadoc.jar | *-tests.jar) continue ;;
    esac
    if [[ -e "$jar" && (-z "$newest" || "$jar" -nt "$newest") ]]; then
      newest="$jar"
    fi
  done
  printf '%s\n' "$newest"
}

is_built() {
  [[ -n "$(examples_jar)" && -e "$NVRAR_STATE/built" && "$(cat "$NVRAR_STATE/built")" == "$(source_fingerprint)" ]]
}

ensure_built() {
  is_built && return 0
  mkdir -p "$NVRAR_STATE"
  (
    flock 9
    is_built && exit 0
    build 9>&-
  ) 9> "$NVRAR_STATE/build.lock"
}

# Libraries that an earlier build copied and the next no longer names would stay on the class path.
forget_libraries() {
  rm -rf "$NVRAR_HOME/examples/target/lib"
}

# mark_built FINGERPRINT: what was packaged is of the sources that had this fingerprint before.
mark_built() {
  printf '%s\n' "$1" > "$NVRAR_STATE/built"
}

# What a program that runs needs none of.
LIBRARY_ONLY=(-DskipNativeTests -Dnvrar.cmake.target=nvrar -Djacoco.skip -Dmaven.javadoc.skip -Dmaven.source.skip)

build() {
  local log="$NVRAR_STATE/build.log" fingerprint
  fingerprint="$(source_fingerprint)"
  say "building (the first time takes minutes; log: $log)"
  SECONDS=0
  forget_libraries
  if ! maven -pl examples -am package -Dmaven.test.skip "${LIBRARY_ONLY[@]}" > "$log" 2>&1 < /dev/null; then
    # Not Maven's own stack and advice.
    grep -Ev '^ +at |^\[ERROR\] *$|\[Help 1\]|re-run Maven|mvn <args>|Re-run Maven|read the following articles|resume the build' "$log" |
      tail -n 25 >&2
    die "the build failed; its last lines are above, all of them in $log"
  fi
  mark_built "$fingerprint"
  say "built in $SECONDS s"
}

# maven ARGS...: Maven on the JDK that find_jdk names.
maven() {
  JAVA_HOME="$(find_jdk)" mvn -q -B -ntp -f "$NVRAR_HOME/pom.xml" "$@"
}
