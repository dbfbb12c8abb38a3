# shellcheck shell=bash
# bin/nvrar bench: builds the two native programs whose times the Java command of the same name compares with its own.
# Sourced by bin/nvrar.

# The second program needs MPI and is for comparison only: if MPI is missing, the command reports that.
ensure_bench() {
  # A package made by integration-tests/gpu/pack.sh contains the programs but no sources.
  [[ -e "$NVRAR_HOME/native/CMakeLists.txt" ]] || return 0
  local programs=(nvrar_bench)
  if command -v mpicxx > /dev/null; then
    programs+=(nvrar_bench_mpi)
  fi
  has_bench && return 0
  ensure_packages native
  locked build_bench
}

# Whether the build that this command holds has all of `programs`, an array of the caller.
has_bench() {
  local program
  for program in "${programs[@]}"; do
    [[ -x "$NVRAR_BUILD/bench/$program" ]] || return 1
  done
}

build_bench() {
  local log="$NVRAR_STATE/bench.log"
  has_bench && return 0
  # Joined by &&, because set -e does nothing to the left of ||.
  {
    cd "$NVRAR_HOME/native" && with_compiler cmake --preset release && with_compiler cmake --build --preset release --target "${programs[@]}"
  } > "$log" 2>&1 < /dev/null || {
    tail -n 25 "$log" >&2
    die "the benchmark's programs could not be built; the last lines are above, all of them in $log"
  }
  [[ "$(source_fingerprint)" == "$(cat "$NVRAR_BUILD/fingerprint")" ]] || die "the sources have changed since this build; start the command again"
  add_to_build libnvrar.so
  local program
  for program in "${programs[@]}"; do
    add_to_build "bench/$program"
  done
}

# add_to_build FILE: adds a file of native/build/release, unless the build has it already; then it may be in use.
add_to_build() {
  local file="$NVRAR_BUILD/$1"
  [[ ! -e "$file" ]] || return 0
  mkdir -p "$(dirname "$file")"
  cp "$NVRAR_HOME/native/build/release/$1" "$file.new"
  mv "$file.new" "$file"
}
