# shellcheck shell=bash
# Builds the native library, the Java library and the examples when their sources have changed. Sourced by bin/nvrar.
#
# Maven builds in place; the result is then published as a separate directory, which is never changed. A command runs
# the newest one and holds it until the command ends, so that another build, failed or not, never removes files of a
# running command.
#
#   target/nvrar/builds/NAME/lib           our jars and their libraries
#                            fingerprint   that of the sources that were built
#                            kernels       the nvcc that compiled the GPU kernels; exists only if the library has any
#                            preset        that of the native build
#                            bench         the programs of bin/nvrar bench, once they were needed; their libnvrar.so is
#                                          one level up
#                            users         locked by each command that runs this build
#   target/nvrar/current                   a link to the newest build
#   target/nvrar/kernels-wanted            exists once bin/nvrar setup --cuda has asked for the GPU kernels

BUILDS="$NVRAR_STATE/builds"
CURRENT="$NVRAR_STATE/current"
# The module whose libraries and jar are the class path of all commands: it depends on all others that they need.
LAUNCHED=examples/09-llama-decode
KERNELS_WANTED="$NVRAR_STATE/kernels-wanted"

# The build that hold_build has locked.
NVRAR_BUILD=''

# One line that changes whenever a source file does.
source_fingerprint() {
  (
    cd "$NVRAR_HOME" && export LC_ALL=C &&
      find pom.xml native ray-plugin tools examples integration-tests/soak \
        \( -name target -o -name build -o -name model -o -name test-models -o -name __pycache__ -o -name '*.md' \) -prune \
        -o -type f -printf '%p %s %T@\n' | sort | sha256sum
  )
}

is_built() {
  [[ -e "$CURRENT/users" && -e "$CURRENT/fingerprint" && "$(cat "$CURRENT/fingerprint")" == "$(source_fingerprint)" ]]
}

# Makes sure that the newest build is one of the current sources, and holds it.
ensure_built() {
  is_built || locked build_unless is_built || return
  hold_build
}

# Like ensure_built, for callers that want the GPU kernels: if there is a compiler for them, a build without kernels is
# not accepted.
ensure_built_with_kernels() {
  has_what_setup_wants || locked build_unless has_what_setup_wants || return
  hold_build
}

has_what_setup_wants() {
  is_built && { [[ -e "$CURRENT/kernels" ]] || ! find_nvcc > /dev/null; }
}

# ensure_ready VERSION: Ray and the newest build, side by side: installing Ray mostly waits for the network.
ensure_ready() {
  local installing=''
  if [[ ! -e "$(ray_environment "$1")/.complete" ]]; then
    # A process group of its own, which the trap can end.
    set -m
    ensure_ray "$1" 2> >(cat >&2) &
    installing=$!
    set +m
    # shellcheck disable=SC2064 # That process.
    trap "kill -- -$installing 2> /dev/null || true" EXIT
  fi
  ensure_built
  if [[ -n "$installing" ]]; then
    if kill -0 "$installing" 2> /dev/null; then
      say "waiting for the installation of Ray"
    fi
    wait "$installing" || exit 1
    trap - EXIT
  fi
}

# build_unless CONDITION: checks again after waiting, because another process may have built meanwhile.
build_unless() {
  "$1" || build
}

# locked FUNCTION ARGS...: runs FUNCTION while no other process runs Maven in this checkout or builds what Maven builds.
locked() {
  alone build "$@"
}

# alone WHAT FUNCTION ARGS...: runs FUNCTION while no other process builds WHAT in this checkout.
alone() {
  local lock="$NVRAR_STATE/$1.lock"
  shift
  if ! { mkdir -p "$NVRAR_STATE" && [[ -w "$NVRAR_STATE" ]] && : >> "$lock"; } 2> /dev/null; then
    die "something has to be built here, and user $(id -un 2> /dev/null || id -u) may not write to $NVRAR_STATE: let its owner, $(stat -c %U "$NVRAR_HOME"), run \
bin/nvrar setup, or take a checkout of your own"
  fi
  (
    flock -n 9 || { say "waiting for another build of this checkout" && flock 9; }
    "$@" 5<&- 9>&-
  ) 9>> "$lock"
}

# Sets NVRAR_BUILD to the newest build, which is kept as long as this process or one of its children has descriptor 5
# open. Tries again if another process publishes a newer build and removes this one before it is locked.
hold_build() {
  for _ in 1 2 3 4 5; do
    NVRAR_BUILD="$(readlink -e "$CURRENT")" || break
    if { exec 5< "$NVRAR_BUILD/users"; } 2> /dev/null && flock -s -w 5 5 && [[ -e "$NVRAR_BUILD/users" ]]; then
      return 0
    fi
  done
  die "there is no build in $BUILDS that can be run; bin/nvrar setup makes one"
}

# publish FINGERPRINT PRESET: makes what Maven has packaged the newest build. FINGERPRINT is that of its sources before
# the build, PRESET that of the native build.
publish() {
  local new name launched="$NVRAR_HOME/$LAUNCHED/target" soak="$NVRAR_HOME/integration-tests/soak/target"
  [[ "$2" != run ]] || launched+=/run soak+=/run
  name="$(date +%Y%m%d-%H%M%S)-$BASHPID"
  new="$BUILDS/.$name"
  # No other process publishes while this one has the lock, so a directory with such a name is left from an interrupted
  # run.
  rm -rf --one-file-system "$BUILDS"/.[0-9]*
  mkdir -p "$new/lib" &&
    cp "$(packaged_jar "$launched")" "$(packaged_jar "$soak")" "$launched"/lib/*.jar "$new/lib/" &&
    printf '%s\n' "$1" > "$new/fingerprint" &&
    printf '%s\n' "$2" > "$new/preset" &&
    : > "$new/users" || return 1
  # The kernels are in a section of this name.
  if grep -qsF .nv_fatbin "$NVRAR_HOME/native/build/$2/libnvrar.so"; then
    kernel_compiler > "$new/kernels" || true
  fi
  mv "$new" "$BUILDS/$name" &&
    ln -sfn "builds/$name" "$CURRENT.new" &&
    mv -T "$CURRENT.new" "$CURRENT" || return 1
  remove_old_builds
}

# Removes the builds that no command uses any more.
remove_old_builds() {
  local build
  for build in "$BUILDS"/*; do
    [[ "$build" -ef "$CURRENT" ]] || (
      flock -x -n 5 && mv "$build" "$BUILDS/.${build##*/}" && rm -rf --one-file-system "$BUILDS/.${build##*/}"
    ) 5>> "$build/users" || true
  done
}

# packaged_jar TARGET: prints the jar that Maven has packaged there; the newest one if there are several versions.
packaged_jar() {
  local jar newest=''
  for jar in "$1"/ray-nvrar-*.jar; do
    case "$jar" in
      *-sources.jar | *-javadoc.jar | *-tests.jar) continue ;;
    esac
    if [[ -e "$jar" && (-z "$newest" || "$jar" -nt "$newest") ]]; then
      newest="$jar"
    fi
  done
  printf '%s\n' "$newest"
}

# Otherwise libraries that an earlier build copied, and that are no longer dependencies, would be published, too.
forget_libraries() {
  rm -rf "$NVRAR_HOME/$LAUNCHED"/target/{,run/}lib
  # What the examples had before Llama decode was a module: kernels that would be found before its own.
  rm -rf "$NVRAR_HOME"/examples/target/{,run/}classes/io/nvrar/examples/llama
}

# Maven options that skip everything that is not needed at run time.
LIBRARY_ONLY=(-DskipNativeTests -Dnvrar.cmake.target=nvrar -Djacoco.skip -Dmaven.javadoc.skip -Dmaven.source.skip -Dflatten.skip -Dcyclonedx.skip)

has_gpu() {
  command -v nvidia-smi > /dev/null && timeout 60 nvidia-smi -L 2> /dev/null | grep -q '^GPU'
}

# Prints the options by which the native build of a command compiles kernels: none without a GPU, because they take
# longer than all else; those of this machine's GPUs; or all if setup --cuda asks for them, or if the compiler does not
# know these GPUs, which then make their own from PTX.
kernel_options() {
  local nvcc capability known architectures=''
  if has_gpu && nvcc="$(kernel_compiler)"; then
    known="$("$nvcc" --list-gpu-code 2> /dev/null || true)"
    while read -r capability; do
      capability="${capability//./}"
      if ! grep -qx "sm_$capability" <<< "$known"; then
        architectures=''
        break
      fi
      architectures+=";$capability-real"
    done < <(timeout 60 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | sort -u)
    printf -- '-DNVRAR_KERNELS=AUTO %s\n' "${architectures:+-DNVRAR_CUDA_ARCHITECTURES=${architectures#;}}"
  elif [[ -e "$KERNELS_WANTED" ]]; then
    printf -- '-DNVRAR_KERNELS=AUTO\n'
  else
    printf -- '-DNVRAR_KERNELS=OFF\n'
  fi
}

build() {
  local log="$NVRAR_STATE/build.log" fingerprint progress code=0
  fingerprint="$(source_fingerprint)"
  say "building (the first time takes minutes; log: $log)"
  SECONDS=0
  forget_libraries
  : > "$log"
  build_progress "$log" &
  progress=$!
  # The native library and the Java modules are built side by side.
  package_to_run -T 2 -pl "$LAUNCHED",integration-tests/soak >> "$log" 2>&1 < /dev/null || code=$?
  end_progress "$progress"
  if ((code != 0)); then
    # Without Maven's own stack traces and advice.
    grep -Ev '^ +at |^\[INFO\]|^\[ERROR\] *$|\[Help 1\]|re-run Maven|mvn <args>|Re-run Maven|read the following articles|resume the build' "$log" |
      tail -n 25 >&2
    die "the build failed; its last lines are above, all of them in $log"
  fi
  publish "$fingerprint" run || die "what was built could not be copied to $BUILDS"
  say "built in $SECONDS s"
}

# package_to_run ARGS...: packages the modules that ARGS name, and what they need, for a command.
package_to_run() {
  # Maven's JVM lives too short for its best compiler.
  MAVEN_OPTS="${MAVEN_OPTS:-} -XX:TieredStopAtLevel=1 ${COLLECTOR[*]}" NVRAR_CMAKE_OPTIONS="$(kernel_options)" \
    maven_run "$@" -am package -Dnvrar.run -DskipTests "${LIBRARY_ONLY[@]}" -Dspotless.check.skip
}

# build_progress LOG: says how far the build is, until it is ended: on a terminal in one line, elsewhere for each module of Java.
build_progress() {
  local shown='' now native java
  # Ends with the shell that builds, however that ends.
  while kill -0 "$$" 2> /dev/null; do
    native="$(sed -n 's/^\[\([0-9]*\/[0-9]*\)\] .*/\1/p' "$1" | tail -n 1)"
    java="$(sed -n 's/^\[INFO\] Building \(ray-nvrar.*[^ ]\) [0-9][^ ]* *\[\([0-9]*\/[0-9]*\)\].*/\2 (\1)/p' "$1" | tail -n 1)"
    now="native ${native:-...}, modules ${java:-...}"
    if [[ -t 2 ]]; then
      printf '\r\033[Knvrar: building: %s' "$now" >&2
    elif [[ "${now#*, }" != "${shown#*, }" && -n "$java" ]]; then
      say "building: $now"
    fi
    shown="$now"
    sleep 0.5
  done
}

# end_progress PID
end_progress() {
  { kill "$1" && wait "$1" || true; } 2> /dev/null
  if [[ -t 2 ]]; then
    printf '\r\033[K' >&2
  fi
}

# The compiler of the kernels. A user without one gets that of the last build; otherwise two users who differ in this
# would alternately build with and without kernels.
kernel_compiler() {
  find_nvcc || { [[ -s "$CURRENT/kernels" ]] && "$NVRAR_HOME/native/cmake/find-nvcc" "$(cat "$CURRENT/kernels")" 2> /dev/null; }
}

# with_compiler COMMAND...: runs it in an environment in which CMake finds that compiler, too. (The checks that CMake
# runs are in Python.)
with_compiler() {
  local nvcc
  if ! find_nvcc > /dev/null && nvcc="$(kernel_compiler)"; then
    "${OWN_PYTHON[@]}" "CUDA_HOME=${nvcc%/bin/nvcc}" "$@"
  else
    "${OWN_PYTHON[@]}" "$@"
  fi
}

# maven ARGS...: runs Maven on the JDK that find_jdk prints, and says what fails.
maven() {
  maven_run -q "$@"
}

# maven_run ARGS...: the same, and says what it does.
maven_run() {
  JAVA_HOME="$(find_jdk)" with_compiler mvn -B -ntp -f "$NVRAR_HOME/pom.xml" "$@"
}

# configure PRESET OPTIONS...: configures the native build.
configure() {
  with_compiler "$NVRAR_HOME/native/cmake/configure" "$@"
}
