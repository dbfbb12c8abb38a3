# shellcheck shell=bash
# On a GPU host without network, Java and Ray: unpacks what pack.sh has packed and sets the environment. To be sourced by bash:
#
#   . host.sh [DIRECTORY]          the archives lie beside this file; DIRECTORY is /opt/nvrar if it is not named
#
# What was unpacked before from the same archives stays. Afterwards there are JAVA_HOME, Java on the PATH, and
#
#   nvrar COMMAND ...              bin/nvrar, as where it was built: doctor, hello, post-mortem, ...
#   nvrar_native PROGRAM ...       a native test program, or nvrar_bench
#   nvrar_ctest ...                the native tests for GPUs, by ctest and with its options; with NVRAR_TEST_GPUS=2 rank r is on GPU r modulo 2
#   nvrar_java_tests [REGEX] ...   the Java tests with the tag gpu of the classes whose whole names fit; what follows goes to JUnit's
#                                  console, as --include-tag=ray. Tests of Ray start a private cluster.
#   nvrar_contract_tests GPUS [REGEX] ...
#                                  the Java tests of what groups of both backends must do, rank r on GPU r modulo GPUS
#   nvrar_decode_tests GPUS [REGEX] ...
#                                  the Java tests with the tag gpu of the example that decodes, rank r on GPU r modulo GPUS
#
# The host has bash, tar, xz, the version of Python that the archives were made for, NVIDIA's driver, and NVSHMEM and ctest where these
# are wanted.

NVRAR_HOST="$(mkdir -p "${1:-/opt/nvrar}" && cd "${1:-/opt/nvrar}" && pwd)" || return 1

# NVLink multicast is off in every process here, also in those that only compare: not every host lets a container use it, and some hang.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export RAY_USAGE_STATS_ENABLED=0

# nvrar_unpack FROM: a checkout that was built, in $NVRAR_HOST/home, and Ray where bin/nvrar looks for it.
nvrar_unpack() {
  local from="$1" sums ray
  sums="$(cd "$from" && sha256sum ray.txz jre.txz nvrar.txz)" || return 1
  [[ "$(cat "$NVRAR_HOST/unpacked" 2> /dev/null)" != "$sums" ]] || return 0
  rm -rf "${NVRAR_HOST:?}"/{unpacked,home,jre,cache}
  mkdir -p "$NVRAR_HOST"/{home,jre,cache} && chmod 700 "$NVRAR_HOST/cache" &&
    tar -C "$NVRAR_HOST/jre" -xJf "$from/jre.txz" &&
    tar -C "$NVRAR_HOST/home" -xJf "$from/nvrar.txz" || return 1
  find "$NVRAR_HOST/home/native" -name CTestTestfile.cmake -exec sed -i "s:@NVRAR_HOME@:$NVRAR_HOST/home:g" {} + || return 1
  ray="$NVRAR_HOST/cache/nvrar/ray-$(cat "$NVRAR_HOST/home/ray-version")"
  mkdir -m 700 "$NVRAR_HOST/cache/nvrar" && mkdir "$ray" &&
    tar -C "$ray" -xJf "$from/ray.txz" && touch "$ray/.complete" &&
    printf '%s\n' "$sums" > "$NVRAR_HOST/unpacked"
}

nvrar() {
  "$NVRAR_HOST/home/bin/nvrar" "$@"
}

nvrar_native() {
  local build="$NVRAR_HOST/home/native/build/release" program="$1"
  shift
  case "$program" in
    *_bench) program="$build/bench/$program" ;;
    *) program="$build/test/$program" ;;
  esac
  LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program" "$@"
}

nvrar_ctest() {
  local build="$NVRAR_HOST/home/native/build/release"
  LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ctest --test-dir "$build" -L gpu --output-on-failure "$@"
}

nvrar_java_tests() {
  local test_options=() classes="${1:-.*(Test|IT)}"
  shift || true
  nvrar_junit "$classes" --include-tag=gpu "$@"
}

nvrar_contract_tests() {
  local test_options=(-Dnvrar.test.backend=cuda "-Dnvrar.test.gpus=$1") classes="${2:-.*Test}"
  shift "$(($# < 2 ? $# : 2))"
  # Members are threads of one JVM, and each needs streams that wait for no other's.
  CUDA_DEVICE_MAX_CONNECTIONS=32 nvrar_junit "$classes" '--include-tag=contract & !host' "$@"
}

nvrar_decode_tests() {
  local test_options=(-Dnvrar.sharedDevices=true "-Dnvrar.test.gpus=$1") classes="${2:-io.nvrar.examples.llama.*Test}"
  shift "$(($# < 2 ? $# : 2))"
  CUDA_DEVICE_MAX_CONNECTIONS=32 nvrar_junit "$classes" --include-tag=gpu "$@"
}

# nvrar_junit REGEX ARGS...: JUnit's console; test_options are its JVM's.
nvrar_junit() (
  NVRAR_HOME="$NVRAR_HOST/home"
  for part in common setup build run; do
    # shellcheck source=/dev/null
    . "$NVRAR_HOME/bin/lib/$part.sh"
  done
  hold_build
  tests="$(printf '%s:' "$NVRAR_HOME"/tests/*-tests.jar)"
  reports="$NVRAR_STATE/test/gpu"
  classes="$1"
  shift
  mkdir -p "$reports"
  # Those of containers need libraries that are not here.
  "$JAVA_HOME/bin/java" "${JVM_OPTIONS[@]}" "-Dnvrar.home=$NVRAR_HOME" "-Dnvrar.keeper=$NVRAR_HOME/bin/lib/keeper.py" \
    "-Dnvrar.ray.venv=$(ray_environment "$NVRAR_RAY_VERSION")" "-Dnvrar.test.jar=$NVRAR_HOME/tests/integration-tests.jar" \
    "-Dnvrar.test.work=$reports" -Dnvrar.require.ray=true "${test_options[@]}" \
    -cp "$(ray_jar "$NVRAR_RAY_VERSION"):$tests$NVRAR_HOME/tests/junit-console.jar:$(our_jars)" \
    org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors --exclude-engine=junit-vintage --fail-if-no-tests \
    "--scan-classpath=$tests" "--include-classname=$classes" --exclude-package=io.nvrar.it.containers \
    --config=junit.jupiter.execution.timeout.default=180s "--reports-dir=$reports" "$@"
)

nvrar_unpack "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)" || {
  printf 'host.sh: the archives could not be unpacked into %s\n' "$NVRAR_HOST" >&2
  return 1
}
export JAVA_HOME="$NVRAR_HOST/jre" XDG_CACHE_HOME="$NVRAR_HOST/cache"
export PATH="$JAVA_HOME/bin:$PATH"
NVRAR_RAY_VERSION="$(cat "$NVRAR_HOST/home/ray-version")"
export NVRAR_RAY_VERSION
# It was built elsewhere: bin/nvrar shall not want to build it.
(
  NVRAR_HOME="$NVRAR_HOST/home"
  for part in common cuda build; do
    # shellcheck source=/dev/null
    . "$NVRAR_HOME/bin/lib/$part.sh"
  done
  source_fingerprint > "$CURRENT/fingerprint"
)
