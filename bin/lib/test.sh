# shellcheck shell=bash
# bin/nvrar test: runs the tests that this machine can run, and prints a table of what ran and why anything was left
# out. Sourced by bin/nvrar.

NVRAR_SECOND_RAY_VERSION=2.39.0
RESULTS="$NVRAR_STATE/test"
# A Maven repository with what users get, of this run.
REPOSITORY="$NVRAR_STATE/repository"
# For the Maven runs of later steps: skips what one step has done already for all.
NOT_AGAIN=("${LIBRARY_ONLY[@]}" -Dspotless.check.skip)
# The unit tests spend half of their time waiting, and use no process, port or file of other tests. So two JVMs share
# the test classes.
TWO_JVMS=(-DforkCount=2)

# The modules with Java tests.
TESTED=(ray-plugin tools examples examples/10-training integration-tests/soak integration-tests)

# It measures how long a user waits, so nothing runs beside it.
WARM_START=a_warm_start

# Written to a file, because steps that run in the background call this, too.
leave_out() {
  printf 'left out: %s\n' "$1" >> "$RESULTS/left-out"
}

# idly STEP...: runs a step only while no other process wants a processor. For computations that run beside tests that
# measure time. Niceness would not suffice, because a thread that wakes still waits for the current time slice of a nice
# one.
idly() (
  # Where there is no chrt, or it is not allowed, it only takes longer.
  chrt --idle --pid 0 "$BASHPID" 2> /dev/null || true
  "$@"
)

# step NAME STRICT FUNCTION ARGS...: runs one step and writes its output to a log. It calls FUNCTION DIRECTORY ARGS,
# which writes its XML files to DIRECTORY. STRICT is empty, no-skips, or check (no XML files: the step itself is one
# test).
step() {
  local name="$1" strict="$2" function="$3" directory="$RESULTS/$1" log="$RESULTS/$1.log" code=0
  shift 3
  # Steps beside the others do not go on after the script was killed.
  kill -0 "$$" 2> /dev/null || exit 1
  mkdir -p "$directory"
  say "test: $name ..."
  SECONDS=0
  ("$function" "$directory" "$@") > "$log" 2>&1 < /dev/null 7>&- || code=$?
  printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$code" "$SECONDS" "$directory" "$strict" >> "$RESULTS/steps"
  if ((code == 0)); then
    say "test: $name passed in $SECONDS s"
  else
    # One message, because another step may print at the same time.
    say "test: $name FAILED after $SECONDS s; the end of $log:"$'\n'"$(tail -n 40 "$log")"
  fi
}

# side_by_side STEPS OTHER_STEPS: runs two functions in parallel, each of which runs its steps one after the other.
side_by_side() {
  # The others get a process group of their own, so that the trap can end them with this shell. They print through a
  # pipe, because some terminals stop a background process that writes.
  set -m
  "$2" 2> >(cat >&2) &
  other_steps=$!
  set +m
  trap 'kill -- "-$other_steps" 2> /dev/null; wait "$other_steps" 2> /dev/null || true' EXIT
  "$1"
  wait "$other_steps" || printf '%s\t%s\t0\t%s\tcheck\n' "$2" "$?" "$RESULTS/$2" >> "$RESULTS/steps"
  trap - EXIT
}

# step_if CONDITION WHAT NAME STRICT FUNCTION ARGS...: runs the step if the command CONDITION succeeds; otherwise
# records WHAT as left out. In CI the step always runs, and fails if it cannot work.
step_if() {
  local condition="$1" what="$2"
  shift 2
  if [[ "${CI:-}" == true ]] || "$condition"; then
    step "$@"
  else
    leave_out "$what"
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

# Whether CI, which has no time for all tests, runs them without --all.
is_short() {
  [[ "${CI:-}" == true && -z "$all" ]]
}

# Kernels take longer to compile than all else. So CI compiles fewer of them where none of them can run.
saves_kernels() {
  is_short && ! has_gpu
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
    native_alone "$preset" ctest --preset "$preset" --output-junit "$directory/ctest.xml" --test-output-size-passed 10000000 "$@"
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

# java_tests DIRECTORY: also publishes what it packages, for the launcher, and deploys it to REPOSITORY. Builds the programs of bin/nvrar bench, too,
# because they cannot be built while Maven runs other tests.
java_tests() {
  locked java_tests_alone "$@" && ensure_built && ensure_bench
}

java_tests_alone() {
  local fingerprint
  fingerprint="$(source_fingerprint)"
  forget_libraries
  forget_training
  rm -rf "$REPOSITORY"
  maven_tests_alone "$1" surefire deploy -Ptraining -pl native,ray-plugin,tools,examples,examples/10-training,integration-tests/soak,artifacts/bom,artifacts/native -DskipNativeTests \
    -Dnvrar.cmake.target=nvrar "-DaltDeploymentRepository=test::file://${REPOSITORY// /%20}" -Dspotless.check.skip "${TWO_JVMS[@]}" &&
    publish "$fingerprint" release && add_training "$CURRENT" "$TRAINING/target"
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

site_build() {
  site
}

# launcher_tests DIRECTORY NAMES...: all if none is named; -NAME is left out.
launcher_tests() {
  local directory="$1"
  shift
  ensure_built && python3 "$NVRAR_HOME/integration-tests/launcher/launcher_test.py" "$directory/launcher.xml" "$@"
}

# ray_tests DIRECTORY VERSION MAVEN_ARGS...
ray_tests() {
  local directory="$1" version="$2" jdk
  shift 2
  jdk="$(find_jdk)"
  PATH="$jdk/bin:$PATH" maven_tests "$directory" failsafe verify -pl integration-tests -am \
    -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false "${NOT_AGAIN[@]}" \
    "-Dnvrar.ray.venv=$(ray_environment "$version")" -Dnvrar.require.ray=true "$@"
}

has_spin() {
  command -v spin > /dev/null
}

# model_tests DIRECTORY ARGS...
model_tests() {
  local directory="$1"
  shift
  "$NVRAR_HOME/native/model/check" "$@" "$directory/model.xml"
}

has_libfuzzer() {
  [[ -e "$(clang++-14 -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null)" ]]
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

# fuzz_tests DIRECTORY MODULE SECONDS: runs each target for about that time, two on each core, or they would take a third of
# the total time. Nice but not idle beside other tests, because each input has a time limit in seconds.
fuzz_tests() {
  renice -n 10 -p "$BASHPID" > /dev/null
  fuzz_run "$2" --built --seconds "$3" --jobs "$((2 * $(nproc)))" "$1/fuzz.xml"
}

# soak_test DIRECTORY MINUTES: the seed is the date, so it changes daily and is the same all day.
soak_test() {
  "$NVRAR_HOME/bin/nvrar" soak --minutes "$2" --seed "$(date +%Y%m%d)"
}

has_docker() {
  timeout 30 docker version > /dev/null 2>&1
}

# docker_tests DIRECTORY VERSION MAVEN_ARGS...
docker_tests() {
  local directory="$1" version="$2" image
  shift 2
  image="$("$NVRAR_HOME/integration-tests/docker/image.sh" "$version")" &&
    maven_tests "$directory" failsafe verify -pl integration-tests -am \
      -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false "${NOT_AGAIN[@]}" "-Dnvrar.docker.image=$image" "$@"
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
  maven_tests "$1" surefire package -Pgpu -pl native,ray-plugin,tools,examples "-Dnvrar.test.gpus=$gpus" "${NOT_AGAIN[@]}" || code=$?
  return "$code"
}

test_usage() {
  cat << 'END'
bin/nvrar test [--quick] [--all]: runs the tests that this machine can run, and says what was left out.

  --quick  without the sanitizer builds, the fuzzing and the soak
  --all    also the second Ray version, the Java unit tests on a second JDK, the long runs of the model, the message of more than
           2^31 elements, 5 minutes of soak, not 1, and a minute of each fuzz target, not 10 seconds

With CI=true of the sanitizers only that of threads, for the tests whose ranks are threads, and without a GPU kernels are
compiled for compute capability 9.0 only.
END
}

# The steps of run_tests, which use its variables. Of two functions that run in parallel, only the first runs Maven or
# builds what Maven builds.

unit_steps() {
  NVRAR_TEST_LARGE="${all:+1}" step native '' native_tests release
  if can_check_format; then
    step format check format_check
  else
    leave_out "the format of the Java sources (the formatter does not run on JDK 21 and newer; this is $(java_major "$(find_jdk)"))"
  fi
  step java '' java_tests
  [[ -n "$quick" ]] || step fuzz-java-build check fuzz_build ray-plugin
}

computing_steps() {
  local libfuzzer='the native fuzzing (libFuzzer is not there; Debian: apt-get install clang-14 libclang-rt-14-dev)'
  idly step_if has_spin 'the exhaustive model of the protocol (spin is not there; Debian: apt-get install spin)' model "$strict" model_tests ${all:+--long}
  if [[ -n "$quick" ]]; then
    leave_out 'the native tests under the sanitizers, the fuzzing of all that comes from others, and the soak of random collectives and faults (--quick)'
    return
  fi
  if is_short; then
    idly step native-tsan-build check native_build tsan --target threads_tests
  else
    idly step native-asan-build check native_build asan
    idly step native-tsan-build check native_build tsan
  fi
  idly step_if has_libfuzzer "$libfuzzer" fuzz-native-build check fuzz_build native
  if [[ "${CI:-}" == true ]] || has_libfuzzer; then
    step fuzz-native "$strict" fuzz_tests native "$fuzz_seconds"
  fi
}

cluster_steps() {
  local other
  other="$(second_jdk)"
  if [[ -z "$all" ]]; then
    leave_out 'the Java unit tests on JDK 25 (they run with --all)'
  elif [[ -z "$other" ]]; then
    leave_out 'the Java unit tests on JDK 25 (in /usr/lib/jvm there is none but the JDK that builds)'
  else
    step java-25 '' maven_tests surefire package -pl native,ray-plugin,tools,examples,integration-tests/soak "-Djvm=$other/bin/java" "${NOT_AGAIN[@]}" "${TWO_JVMS[@]}"
  fi
  step "ray-$NVRAR_RAY_VERSION" "$strict" ray_tests "$NVRAR_RAY_VERSION"
  if [[ -z "$all" ]]; then
    leave_out "the Ray tests of one host on Ray $NVRAR_SECOND_RAY_VERSION (they run with --all)"
  elif [[ "$NVRAR_RAY_VERSION" != "$NVRAR_SECOND_RAY_VERSION" ]]; then
    ensure_ray "$NVRAR_SECOND_RAY_VERSION"
    step "ray-$NVRAR_SECOND_RAY_VERSION" "$strict" ray_tests "$NVRAR_SECOND_RAY_VERSION"
  fi
  if [[ -z "$quick" ]]; then
    step soak check soak_test "$minutes"
    step fuzz-java "$strict" fuzz_tests ray-plugin "$java_fuzz_seconds"
  fi
  steps_of_either
}

# Most of these measure times, of all processors of their hosts, so nothing runs beside them.
container_steps() {
  step_if has_docker 'the tests on clusters of several hosts, which are containers (no Docker engine answers)' docker "$strict" docker_tests "$NVRAR_RAY_VERSION"
  # The basic ones only: what else differs between versions of Ray is tested on one host.
  if [[ -z "$all" ]]; then
    leave_out "the tests on clusters of several hosts on Ray $NVRAR_SECOND_RAY_VERSION (they run with --all)"
  elif [[ "$NVRAR_RAY_VERSION" != "$NVRAR_SECOND_RAY_VERSION" ]]; then
    step_if has_docker "the same on Ray $NVRAR_SECOND_RAY_VERSION" "docker-$NVRAR_SECOND_RAY_VERSION" "$strict" \
      docker_tests "$NVRAR_SECOND_RAY_VERSION" '-Dnvrar.it.groups=docker & basic'
  fi
}

# The launcher's tests use the published build, and start clusters of their own. They run beside cluster_steps.
published_steps() {
  step launcher "$strict" launcher_tests -"$WARM_START"
  steps_of_either
}

# Steps that use the published build or copies of it. Whichever of cluster_steps and published_steps is free takes the
# next one.
steps_of_either() {
  unless_taken consumers "$strict" consumer_tests
  unless_taken rebuild check rebuild_tests
  unless_taken site check site_build
}

# unless_taken NAME ...: runs a step unless another process has begun it.
unless_taken() {
  ! mkdir "$RESULTS/$1.taken" 2> /dev/null || step "$@"
}

run_tests() {
  local quick='' all='' strict='' minutes=1 fuzz_seconds=10 java_fuzz_seconds=10 argument
  [[ "${CI:-}" != true ]] || strict=no-skips
  for argument in "$@"; do
    case "$argument" in
      -h | --help)
        test_usage
        return
        ;;
      --quick) quick=yes ;;
      --all) all=yes ;;
      *)
        say "there is no option '$argument'; bin/nvrar test takes --quick and --all"
        exit 2
        ;;
    esac
  done
  [[ -z "$all" ]] || { minutes=5 && fuzz_seconds=60 && java_fuzz_seconds=60; }
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
  if ! find_nvcc > /dev/null; then
    if [[ "${CI:-}" == true ]]; then
      ensure_packages cuda
      ensure_cuda
    else
      leave_out 'the compilation of the GPU kernels and the check of their machine code (there is no nvcc; bin/nvrar setup --cuda gets one)'
    fi
  fi
  # For all builds of the preset release, also Maven's.
  export NVRAR_CMAKE_OPTIONS=''
  [[ "${CI:-}" != true ]] || NVRAR_CMAKE_OPTIONS='-DNVRAR_KERNELS=ON'
  if saves_kernels; then
    NVRAR_CMAKE_OPTIONS+=' -DNVRAR_TEST_KERNELS=OFF -DNVRAR_CUDA_ARCHITECTURES=90'
    leave_out 'the compilation of the kernels for compute capability 8.0 and 10.0, and of those that only tests on GPUs run (there is no GPU, and CI has no time for them; they are compiled elsewhere)'
  fi
  step native-build check native_build release
  side_by_side unit_steps computing_steps
  step warm-start "$strict" launcher_tests "$WARM_START"
  side_by_side cluster_steps published_steps
  container_steps
  if [[ -z "$quick" ]]; then
    if is_short; then
      leave_out 'the native tests under the address sanitizer, and those of processes and units under the thread sanitizer (CI has no time for them; they run elsewhere)'
      step native-tsan '' native_tests tsan -L threads
    else
      step native-asan '' native_tests asan
      step native-tsan '' native_tests tsan
    fi
  fi

  if has_gpu && ! find_nvcc > /dev/null; then
    leave_out 'the tests on GPUs (the library holds no kernels, since there is no nvcc; bin/nvrar setup --cuda gets one)'
  elif has_gpu; then
    step gpu '' gpu_tests
    step gpu-ray '' ray_tests "$NVRAR_RAY_VERSION" -Pgpu
  else
    leave_out "the tests on GPUs: ${GPU_PROGRAMS[*]} with NVRAR_TEST_BACKEND=cuda, gpu_memory_test, gpu_bad_input_test, the Java and Ray tests with the tag gpu \
(nvidia-smi lists none; bin/nvrar test runs them where it does, integration-tests/gpu/pack.sh packs them for a host without network)"
  fi
  NVRAR_LEFT_OUT="$(cat "$RESULTS/left-out")" "${OWN_PYTHON[@]}" python3 -I "$NVRAR_HOME/bin/lib/results.py" < "$RESULTS/steps"
}
