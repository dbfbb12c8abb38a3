# shellcheck shell=bash
# bin/nvrar test: runs the steps of the table test-steps, and prints what ran and why anything was left out. Sourced by
# bin/nvrar.

NVRAR_SECOND_RAY_VERSION=2.39.0
RESULTS="$NVRAR_STATE/test"
# A Maven repository with what users get, of this run.
REPOSITORY="$NVRAR_STATE/repository"
# For the Maven runs of later steps: skips what one step has done already for all.
NOT_AGAIN=("${LIBRARY_ONLY[@]}" -Dspotless.check.skip)
# The unit tests spend half of their time waiting, and use no process, port or file of other tests. So two JVMs share
# the test classes.
TWO_JVMS=(-DforkCount=2)

# The modules with unit tests, of the build that needs no profile; and all modules with tests.
UNITS=native,ray-plugin,tools,examples,examples/09-llama-decode,integration-tests/soak
IFS=, read -ra TESTED <<< "$UNITS,examples/10-training,integration-tests"

# Written to a file, because steps that run in the background call this, too.
leave_out() {
  printf 'left out: %s\n' "$1" >> "$RESULTS/left-out"
}

# idly DIRECTORY FUNCTION ARGS...: runs FUNCTION DIRECTORY ARGS only while no other process wants a processor. For
# computations that run beside tests that measure time. Niceness would not suffice, because a thread that wakes still
# waits for the current time slice of a nice one.
idly() {
  # Where there is no chrt, or it is not allowed, it only takes longer.
  chrt --idle --pid 0 "$BASHPID" 2> /dev/null || true
  "$2" "$1" "${@:3}"
}

# step NAME COUNTS FUNCTION ARGS...: runs one step and writes its output to a log. It calls FUNCTION DIRECTORY ARGS,
# which writes its XML files to DIRECTORY. COUNTS is as in the table.
step() {
  local name="$1" counts="$2" function="$3" directory="$RESULTS/$1" log="$RESULTS/$1.log" code=0
  shift 3
  # Steps beside the others do not go on after the script was killed.
  kill -0 "$$" 2> /dev/null || exit 1
  mkdir -p "$directory"
  say "test: $name ..."
  SECONDS=0
  ("$function" "$directory" "$@") > "$log" 2>&1 < /dev/null 7>&- || code=$?
  printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$code" "$SECONDS" "$directory" "$counts" >> "$RESULTS/steps"
  if ((code == 0)); then
    say "test: $name passed in $SECONDS s"
  else
    # One message, because another step may print at the same time.
    say "test: $name FAILED after $SECONDS s; the end of $log:"$'\n'"$(tail -n 40 "$log")"
  fi
}

# native_alone PRESET FUNCTION ARGS...: runs FUNCTION while no other process builds in that preset's directory. Maven
# builds in the one of `release`, too.
native_alone() {
  local preset="$1"
  shift
  alone "${preset/#release/build}" "$@"
}

# native_build DIRECTORY PRESET BUILD_ARGS...
native_build() {
  shift
  native_alone "$1" native_build_alone "$@"
}

# The sanitizers do not change the kernels, so those of the release build are used.
native_build_alone() {
  local options=()
  if [[ "$1" != release ]]; then
    options=(-DNVRAR_KERNELS=AUTO)
    [[ "${CI:-}" != true ]] || options=(-DNVRAR_KERNELS=ON)
    options+=("-DNVRAR_KERNELS_BUILT=$NVRAR_HOME/native/build/release/kernels")
  fi
  cd "$NVRAR_HOME/native" &&
    configure "$1" "${options[@]}" &&
    with_compiler cmake --build --preset "$@"
}

# native_tests DIRECTORY PRESET CTEST_ARGS...: runs what native_build has built.
native_tests() {
  local directory="$1" preset="$2"
  shift 2
  cd "$NVRAR_HOME/native" &&
    native_alone "$preset" ctest --preset "$preset" --output-junit "$directory/ctest.xml" \
      --test-output-size-passed 10000000 "$@"
}

native_tests_of_large_messages() {
  NVRAR_TEST_LARGE=1 native_tests "$@"
}

# take_reports DIRECTORY KIND: copies the XML files that surefire or failsafe has written since they were last cleared.
take_reports() {
  local module file
  for module in "${TESTED[@]}"; do
    for file in "$NVRAR_HOME/$module/target/$2-reports"/TEST-*.xml; do
      [[ ! -e "$file" ]] || cp "$file" "$1/${module##*/}-${file##*/}"
    done
  done
}

clear_reports() {
  local module
  for module in "${TESTED[@]}"; do
    rm -rf "$NVRAR_HOME/$module/target/$1-reports"
  done
}

# maven_tests DIRECTORY KIND ARGS...: KIND is surefire or failsafe; the reports are copied whatever the outcome. Locked,
# because the tests run what Maven has built in place.
maven_tests() {
  locked maven_tests_alone "$@"
}

maven_tests_alone() {
  local directory="$1" kind="$2" code=0
  shift 2
  clear_reports "$kind"
  maven "$@" || code=$?
  take_reports "$directory" "$kind"
  return "$code"
}

# google-java-format's newest release for JDK 17 does not run on 21 and newer, so pom.xml enables it only below 21.
can_check_format() {
  (($(java_major "$(find_jdk)") < 21))
}

format_check() {
  maven com.diffplug.spotless:spotless-maven-plugin:check
}

# java_tests DIRECTORY: also publishes what it packages, for the launcher, and deploys it to REPOSITORY. Builds the
# programs of bin/nvrar bench, too, because they cannot be built while Maven runs other tests.
java_tests() {
  locked java_tests_alone "$@" && ensure_built && ensure_bench
}

java_tests_alone() {
  local fingerprint
  fingerprint="$(source_fingerprint)"
  forget_libraries
  forget_training
  rm -rf "$REPOSITORY"
  maven_tests_alone "$1" surefire deploy -Ptraining -pl "$UNITS,examples/10-training,artifacts/bom,artifacts/native" \
    -DskipNativeTests -Dnvrar.cmake.target=nvrar "-DaltDeploymentRepository=test::file://${REPOSITORY// /%20}" -Dspotless.check.skip "${TWO_JVMS[@]}" &&
    publish "$fingerprint" release && add_training "$CURRENT" "$TRAINING/target"
}

# quick_java_tests DIRECTORY: leaves out slow tests. A build without kernels also leaves out the tests that need kernels.
quick_java_tests() {
  local excluded=slow
  [[ "$NVRAR_CMAKE_OPTIONS" != *KERNELS=OFF* ]] || excluded+=,kernels
  maven_tests "$1" surefire package -pl "$UNITS" "${NOT_AGAIN[@]}" "${TWO_JVMS[@]}" "-Dnvrar.test.excluded=$excluded" &&
    ensure_built && ensure_bench
}

java_25_tests() {
  maven_tests "$1" surefire package -pl "$UNITS" "-Djvm=$(second_jdk)/bin/java" "${NOT_AGAIN[@]}" "${TWO_JVMS[@]}"
}

# rebuild_tests DIRECTORY: another build must give the same bytes.
rebuild_tests() {
  local jdk
  jdk="$(find_jdk)"
  JAVA_HOME="$jdk" "$NVRAR_HOME/artifacts/rebuild" "$REPOSITORY" -Dspotless.check.skip
}

# consumer_tests DIRECTORY: projects of users.
consumer_tests() {
  local jdk
  jdk="$(find_jdk)"
  JAVA_HOME="$jdk" "${OWN_PYTHON[@]}" python3 "$NVRAR_HOME/integration-tests/consumers/run" "$REPOSITORY" linux-x86_64-cpu "$1/consumers.xml"
}

# picture_tests DIRECTORY: the report's tests in a Python that draws.
picture_tests() {
  ensure_plots --plots || return
  NVRAR_TEST_PLOTS=1 "$(requirements_environment plots "$PLOTS_REQUIREMENTS")/bin/python" -B "$NVRAR_HOME/native/bench/test/report_test.py"
}

site_build() {
  site
}

# launcher_tests DIRECTORY NAMES...: all if none is named; -NAME is left out.
launcher_tests() {
  local directory="$1"
  shift
  ensure_built && python3 "$NVRAR_HOME/integration-tests/launcher/launcher_test.py" "$directory/launcher.xml" "$@"
}

# ray_version default|second
ray_version() {
  [[ "$1" == default ]] && printf '%s\n' "$NVRAR_RAY_VERSION" || printf '%s\n' "$NVRAR_SECOND_RAY_VERSION"
}

# ray_tests DIRECTORY default|second MAVEN_ARGS...
ray_tests() {
  local directory="$1" version jdk
  version="$(ray_version "$2")"
  shift 2
  ensure_ray "$version" || return
  jdk="$(find_jdk)"
  PATH="$jdk/bin:$PATH" maven_tests "$directory" failsafe verify -pl integration-tests -am \
    -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false "${NOT_AGAIN[@]}" \
    "-Dnvrar.ray.venv=$(ray_environment "$version")" -Dnvrar.require.ray=true "$@"
}

# model_tests DIRECTORY ARGS...
model_tests() {
  local directory="$1"
  shift
  "$NVRAR_HOME/native/model/check" "$@" "$directory/model.xml"
}

# fuzz_run MODULE ARGS...
fuzz_run() {
  local module="$1"
  shift
  PATH="$(find_jdk)/bin:$PATH" "$NVRAR_HOME/$module/fuzz/run" "$@"
}

# fuzz_build DIRECTORY MODULE: the native targets have a lock of their own, because no other build writes their files.
fuzz_build() {
  if [[ "$2" == native ]]; then
    alone fuzz fuzz_run "$2" --build
  else
    locked fuzz_run "$2" --build
  fi
}

# fuzz_tests DIRECTORY MODULE SECONDS: runs each target for about that time, two on each core, or they would take a
# third of the total time. Nice but not idle beside other tests, because each input has a time limit in seconds.
fuzz_tests() {
  renice -n 10 -p "$BASHPID" > /dev/null
  fuzz_run "$2" --built --seconds "$3" --jobs "$((2 * $(nproc)))" "$1/fuzz.xml"
}

# fuzz_seeds DIRECTORY MODULE: runs each target once over its seeds.
fuzz_seeds() {
  fuzz_run "$2" --built --runs 0 "$1/fuzz.xml"
}

# soak_test DIRECTORY MINUTES: the seed is the date, so it changes daily and is the same all day.
soak_test() {
  "$NVRAR_HOME/bin/nvrar" soak --minutes "$2" --seed "$(date +%Y%m%d)"
}

# docker_tests DIRECTORY default|second TAGS
docker_tests() {
  local image
  image="$("$NVRAR_HOME/integration-tests/docker/image.sh" "$(ray_version "$2")")" &&
    maven_tests "$1" failsafe verify -pl integration-tests -am -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false \
      "${NOT_AGAIN[@]}" "-Dnvrar.docker.image=$image" "-Dnvrar.it.groups=$3"
}

# Prints the directory of a JDK 25, unless the build uses JDK 25 itself or there is none.
second_jdk() {
  local dir first
  first="$(java_major "$(find_jdk)")"
  for dir in /usr/lib/jvm/*; do
    if [[ ! -L "$dir" && "$(java_major "$dir")" == 25 && "$first" != 25 ]]; then
      printf '%s\n' "$dir"
      return 0
    fi
  done
}

# The native programs whose ranks can compute on GPUs.
GPU_PROGRAMS=(threads_all_reduce_test threads_collectives_test threads_sequence_test)

# gpu_tests DIRECTORY: runs these native programs on GPUs, then the Java tests with the tag gpu.
gpu_tests() {
  local program gpus code=0
  gpus="$(nvidia-smi -L | grep -c '^GPU')"
  for program in "${GPU_PROGRAMS[@]}"; do
    # If there are more streams than connections, streams share one, and a rank may queue behind a rank that waits for
    # it.
    NVRAR_TEST_BACKEND=cuda NVRAR_TEST_GPUS="$((gpus < 8 ? gpus : 8))" CUDA_DEVICE_MAX_CONNECTIONS=32 timeout 600 \
      "$NVRAR_HOME/native/build/release/test/$program" "--gtest_output=xml:$1/$program.xml" || code=$?
  done
  maven_tests "$1" surefire package -Pgpu -pl "$UNITS" "-Dnvrar.test.gpus=$gpus" "${NOT_AGAIN[@]}" || code=$?
  return "$code"
}

# why_not NEEDS: prints what is missing on this machine for steps with these needs; nothing if all is there.
why_not() {
  local need
  for need in $1; do
    why_not_one "$need"
  done
}

why_not_one() {
  case "$1" in
    formatter) can_check_format || printf 'the formatter does not run on JDK 21 and newer; this is %s' "$(java_major "$(find_jdk)")" ;;
    spin) command -v spin > /dev/null || printf 'spin is not there; Debian: apt-get install spin' ;;
    libfuzzer)
      [[ -e "$(clang++-14 -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null)" ]] ||
        printf 'libFuzzer is not there; Debian: apt-get install clang-14 libclang-rt-14-dev'
      ;;
    docker) timeout 30 docker version > /dev/null 2>&1 || printf 'no Docker engine answers' ;;
    second-ray) [[ "$NVRAR_RAY_VERSION" != "$NVRAR_SECOND_RAY_VERSION" ]] || printf 'NVRAR_RAY_VERSION is that version' ;;
    jdk25) [[ -n "$(second_jdk)" ]] || printf 'in /usr/lib/jvm there is none but the JDK that builds' ;;
    gpu)
      if ! has_gpu; then
        printf 'nvidia-smi lists none'
      elif ! find_nvcc > /dev/null; then
        printf 'the library holds no kernels, since there is no nvcc; bin/nvrar setup --cuda gets one'
      fi
      ;;
    *) die "test-steps has a need '$1' that test.sh does not know" ;;
  esac
}

# may_be_left_out NEED: CI promises to have the others.
may_be_left_out() {
  [[ "${CI:-}" != true || "$1" == @(gpu|jdk25|formatter|second-ray) ]]
}

# each_row FUNCTION ARGS...: calls FUNCTION ARGS NAME RUNS_IN PLACE NEEDS COUNTS COMMAND TESTS for each row of the table.
each_row() {
  local line field fields
  while IFS= read -r -u 9 line; do
    [[ "$line" != '#'* ]] || continue
    IFS='|' read -ra fields <<< "$line"
    for field in "${!fields[@]}"; do
      read -r "fields[$field]" <<< "${fields[field]}"
    done
    ((${#fields[@]} == 7)) || die "a row of test-steps has not seven columns: $line"
    "$@" "${fields[@]}"
  done 9< "$NVRAR_HOME/bin/lib/test-steps"
}

print_row() {
  local mark kinds=''
  for mark in q f a; do
    [[ "$2" == *"$mark"* ]] && kinds+="$mark" || kinds+='-'
  done
  printf '  %s  %-18s %s%s\n' "$kinds" "$1" "$7" "${4:+ (needs: $4)}"
}

test_usage() {
  cat << 'END'
bin/nvrar test [--full | --all]: runs the tests that this machine can run, and says what was left out.

  (without an option)  what a change needs first: about 15 minutes on two cores, once a command was built
  --full               what CI runs: about an hour
  --all                what runs every night: hours. Also a second version of Ray, a second JDK, all tests under both
                       sanitizers, the long runs of the model, longer fuzzing and soak

With CI=true nothing is left out but the tests on GPUs, and without a GPU kernels are compiled for compute capability
9.0 only.

The steps; q: bin/nvrar test, f: --full, a: --all:

END
  each_row print_row
}

# note_left_out KIND ROW...: records a step that only a larger kind of run has.
note_left_out() {
  [[ "$3" != *"$1"* ]] || return 0
  case "$1$3" in
    q*f*) leave_out "$2: $8 (--full)" ;;
    [qf]*a*) leave_out "$2: $8 (--all)" ;;
  esac
}

# run_row KIND PLACES ROW...: runs the step if it belongs to that kind, its place is one of these, and the machine has what
# it needs.
run_row() {
  local kind="$1" places="$2" name="$3" counts="$7" words why
  [[ "$4" == *"$kind"* && " $places " == *" $5 "* ]] || return 0
  # A step of the lane e runs unless the other lane has begun it.
  [[ "$5" != *e ]] || mkdir "$RESULTS/$name.taken" 2> /dev/null || return 0
  why="$(why_not "$6")"
  if [[ -n "$why" ]] && may_be_left_out "$6"; then
    leave_out "$name: $9 ($why)"
    return 0
  fi
  read -ra words <<< "$8"
  step "$name" "$counts" "${words[@]}"
}

# print_name_at KIND PLACE ROW...: the step's name, if that kind of run has it there.
print_name_at() {
  [[ "$4" != *"$1"* || "$5" != "$2" ]] || printf '%s\n' "$3"
}

# run_lane KIND PHASE LANE
run_lane() {
  each_row run_row "$1" "$2$3"
  each_row run_row "$1" "$2e"
}

# run_phase KIND PHASE: runs its lanes side by side.
run_phase() {
  if [[ -z "$(each_row print_name_at "$1" "$2b")" ]]; then
    run_lane "$1" "$2" a
    return
  fi
  # The lane b gets a process group of its own, so that the trap can end it with this shell. It prints through a pipe,
  # because some terminals stop a background process that writes.
  set -m
  run_lane "$1" "$2" b 2> >(cat >&2) &
  other_lane=$!
  set +m
  trap 'kill -- "-$other_lane" 2> /dev/null; wait "$other_lane" 2> /dev/null || true' EXIT
  run_lane "$1" "$2" a
  wait "$other_lane" || printf 'lane-b\t%s\t0\t%s\tcheck\n' "$?" "$RESULTS/lane-b" >> "$RESULTS/steps"
  trap - EXIT
}

# choose_kernels KIND: for all builds of the preset release, also Maven's. Kernels take longer to compile than all else:
# a quick run compiles the kernels that a command of bin/nvrar would compile, a full run those of one architecture.
choose_kernels() {
  export NVRAR_CMAKE_OPTIONS=''
  if [[ "$1" == q ]]; then
    NVRAR_CMAKE_OPTIONS="$(kernel_options)"
    [[ "$NVRAR_CMAKE_OPTIONS" != *KERNELS=OFF* ]] || leave_out 'the compilation of the GPU kernels, and the Java tests of a library that has them (--full, with an nvcc)'
    return
  fi
  if ! find_nvcc > /dev/null && [[ "${CI:-}" == true ]]; then
    ensure_packages cuda
    ensure_cuda
  fi
  if [[ "${CI:-}" != true ]] && ! find_nvcc > /dev/null; then
    leave_out 'the compilation of the GPU kernels and the check of their machine code (there is no nvcc; bin/nvrar setup --cuda gets one)'
    return
  fi
  NVRAR_CMAKE_OPTIONS='-DNVRAR_KERNELS=ON'
  if [[ "$1" == f ]] && ! has_gpu; then
    NVRAR_CMAKE_OPTIONS+=' -DNVRAR_TEST_KERNELS=OFF -DNVRAR_CUDA_ARCHITECTURES=90'
    leave_out 'the compilation of the kernels for compute capability 8.0 and 10.0, and of those that only tests on GPUs run (--all)'
  fi
}

run_tests() {
  local kind=q phase
  case "${1:-}" in
    '') ;;
    -h | --help)
      test_usage
      return
      ;;
    --full) kind=f ;;
    --all) kind=a ;;
    *) kind='' ;;
  esac
  if [[ -z "$kind" || $# -gt 1 ]]; then
    say "bin/nvrar test takes --full or --all, not '$*'"
    exit 2
  fi
  mkdir -p "$NVRAR_STATE"
  exec 7>> "$NVRAR_STATE/test.lock"
  flock -n 7 || die 'another bin/nvrar test runs in this checkout'
  # Bash would take a Maven that ends by a signal for one that has handled it, and go on.
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  rm -rf "$RESULTS"
  mkdir -p "$RESULTS"
  : > "$RESULTS/steps"
  : > "$RESULTS/left-out"
  ensure_packages ray tests
  ensure_ray "$NVRAR_RAY_VERSION"
  choose_kernels "$kind"
  for phase in 1 2 3 4 5 6 7; do
    run_phase "$kind" "$phase"
  done
  each_row note_left_out "$kind"
  NVRAR_LEFT_OUT="$(cat "$RESULTS/left-out")" "${OWN_PYTHON[@]}" python3 -I "$NVRAR_HOME/bin/lib/results.py" < "$RESULTS/steps"
}
