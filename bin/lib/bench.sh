# shellcheck shell=bash
# bin/nvrar bench: builds the two programs that the Java command of the same name measures beside itself. Sourced by bin/nvrar.

# The second needs MPI, which is for comparison only: where it is missing, the command says so.
build_bench() {
  # What integration-tests/gpu/pack.sh makes of a checkout has the programs and no sources.
  [[ -e "$NVRAR_HOME/native/CMakeLists.txt" ]] || return 0
  ensure_packages native
  local log="$NVRAR_STATE/bench.log" targets=(nvrar_bench)
  mkdir -p "$NVRAR_STATE"
  if command -v mpicxx > /dev/null; then
    targets+=(nvrar_bench_mpi)
  fi
  # Joined by &&, because set -e does nothing to the left of ||.
  (
    flock 9 && cd "$NVRAR_HOME/native" && {
      cmake --preset release && cmake --build --preset release --target "${targets[@]}"
    } 9>&- > "$log" 2>&1 < /dev/null
  ) 9> "$NVRAR_STATE/build.lock" || {
    tail -n 25 "$log" >&2
    die "the benchmark's programs could not be built; the last lines are above, all of them in $log"
  }
}
