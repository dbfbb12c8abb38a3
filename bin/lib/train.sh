# shellcheck shell=bash
# bin/nvrar train: builds lesson 10, whose libraries no other command needs. Sourced by bin/nvrar.

TRAINING="$NVRAR_HOME/examples/10-training"

# Makes sure that the build which this command holds has the jars of the lesson, and puts them on the class path.
ensure_training() {
  has_training || locked build_training_unless_there
  # shellcheck disable=SC2034 # our_jars uses it.
  lesson_jars=("$NVRAR_BUILD"/training/*.jar)
}

has_training() {
  [[ -e "$NVRAR_BUILD/training/complete" ]]
}

build_training_unless_there() {
  has_training || build_training
}

build_training() {
  local log="$NVRAR_STATE/training.log"
  say "building lesson 10 (the first time it downloads PyTorch, 110 MB; log: $log)"
  # Another command may have built newer sources while this one waited.
  [[ "$(cat "$NVRAR_BUILD/fingerprint")" == "$(source_fingerprint)" ]] || die "the sources have just changed: start again"
  forget_training
  if ! package_to_run -Ptraining -pl examples/10-training > "$log" 2>&1 < /dev/null; then
    tail -n 25 "$log" >&2
    die "lesson 10 could not be built; the last lines are above, all of them in $log"
  fi
  add_training "$NVRAR_BUILD" "$TRAINING/target/run"
}

# Otherwise jars of earlier versions would be added, too.
forget_training() {
  rm -rf "$TRAINING"/target/{,run/}{lib,*.jar}
}

# add_training BUILD TARGET: adds what Maven has packaged in TARGET. The other jars are in the build already.
add_training() {
  local jar new="$1/training"
  rm -rf "$new"
  mkdir -p "$new"
  for jar in "$2"/*.jar; do
    case "$jar" in
      *-sources.jar | *-javadoc.jar | *-tests.jar) continue ;;
    esac
    cp "$jar" "$new/" || return 1
  done
  for jar in "$2"/lib/*.jar; do
    # A link, because PyTorch is large. Maven never writes into a library.
    [[ -e "$1/lib/${jar##*/}" ]] || ln "$jar" "$new/" 2> /dev/null || cp "$jar" "$new/" || return 1
  done
  : > "$new/complete"
}
