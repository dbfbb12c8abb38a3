# shellcheck shell=bash
# bin/nvrar bench: builds the two native programs whose times the Java command of the same name compares with its own.
# Sourced by bin/nvrar.

PLOTS_REQUIREMENTS="$NVRAR_HOME/native/bench/report/requirements.txt"

# ensure_plots ARGS...: where pictures are wanted, a Python that draws them. A packed directory has no network, and takes python3.
ensure_plots() {
  local argument environment
  [[ -e "$NVRAR_HOME/native/CMakeLists.txt" ]] || return 0
  for argument in "$@"; do
    if [[ "$argument" == --plots || "$argument" == --plots=* ]]; then
      ensure_packages plots
      environment="$(requirements_environment plots "$PLOTS_REQUIREMENTS")"
      once "$environment" install_requirements "$PLOTS_REQUIREMENTS" matplotlib
      JVM_OPTIONS+=("-Dnvrar.python=$environment/bin/python")
      return 0
    fi
  done
}

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

# bench COMMAND ARGS...: runs the Java command, with --hosts between containers.
bench() {
  local hosts='' argument before=''
  for argument in "$@"; do
    [[ "$before" != --hosts ]] || hosts="$argument"
    [[ "$argument" != --hosts=* ]] || hosts="${argument#*=}"
    before="$argument"
  done
  if [[ -z "$hosts" ]] || asks_for_help "$@"; then
    run_plain "$@"
  else
    bench_on_hosts "$hosts" "${@:2}"
  fi
}

# bench_on_hosts N ARGS...: runs the command with its programs' ranks in N containers, which end with it.
bench_on_hosts() {
  local hosts="$1" image engine_id i code=0
  shift
  [[ "$hosts" =~ ^[2-8]$ ]] || { say "--hosts is '$hosts', must be 2 to 8" && exit 2; }
  image="$("$NVRAR_HOME/integration-tests/docker/image.sh" "$NVRAR_RAY_VERSION")" || die "--hosts needs a Docker engine and an image of this machine's release"
  bench_network="nvrar-bench-$$"
  trap 'end_bench_hosts' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  docker network create "$bench_network" > /dev/null
  for ((i = 0; i < hosts; i++)); do
    # The programs and Open MPI are this machine's. The containers end by themselves, too, after an hour.
    engine_id="$(docker run -d --rm --network "$bench_network" --name "$bench_network-$i" --shm-size 256m -v /usr:/usr:ro -v /tmp:/tmp -v /etc/alternatives:/etc/alternatives:ro \
      -v "$NVRAR_BUILD:$NVRAR_BUILD:ro" -v "$NVRAR_HOME/bin/lib:$NVRAR_HOME/bin/lib:ro" "$image" sleep 3600)"
    NVRAR_BENCH_HOSTS+="$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$engine_id")=$engine_id "
  done
  NVRAR_BENCH_SUBNET="$(docker network inspect -f '{{range .IPAM.Config}}{{.Subnet}}{{end}}' "$bench_network")"
  export NVRAR_BENCH_HOSTS NVRAR_BENCH_SUBNET
  (JVM_OPTIONS+=("-Dnvrar.bench.hosts=$NVRAR_HOME/bin/lib/on-hosts") && run_plain bench "$@") || code=$?
  return "$code"
}

end_bench_hosts() {
  docker ps -q --filter "network=$bench_network" | xargs -r docker kill > /dev/null 2>&1 || true
  docker network rm "$bench_network" > /dev/null 2>&1 || true
}

# Whether the build that this command holds has all of `programs`, an array of the caller.
has_bench() {
  local program
  for program in "${programs[@]}"; do
    [[ -x "$NVRAR_BUILD/bench/$program" ]] || return 1
  done
}

build_bench() {
  local log="$NVRAR_STATE/bench.log" preset
  has_bench && return 0
  preset="$(cat "$NVRAR_BUILD/preset")"
  say "building the benchmark's programs (log: $log)"
  # Joined by &&, because set -e does nothing to the left of ||.
  {
    cd "$NVRAR_HOME/native" && configure_as_built "$preset" && with_compiler cmake --build --preset "$preset" --target "${programs[@]}"
  } > "$log" 2>&1 < /dev/null || {
    tail -n 25 "$log" >&2
    die "the benchmark's programs could not be built; the last lines are above, all of them in $log"
  }
  [[ "$(source_fingerprint)" == "$(cat "$NVRAR_BUILD/fingerprint")" ]] || die "the sources have changed since this build; start the command again"
  add_to_build "$preset" libnvrar.so
  local program
  for program in "${programs[@]}"; do
    add_to_build "$preset" "bench/$program"
  done
}

# configure_as_built PRESET: with the kernels that the build has.
configure_as_built() {
  if [[ "$1" == run ]]; then
    NVRAR_CMAKE_OPTIONS="$(kernel_options)" configure "$1"
  else
    configure "$1"
  fi
}

# add_to_build PRESET FILE: adds a file of native/build/PRESET, unless the build has it already; then it may be in use.
add_to_build() {
  local file="$NVRAR_BUILD/$2"
  [[ ! -e "$file" ]] || return 0
  mkdir -p "$(dirname "$file")"
  cp "$NVRAR_HOME/native/build/$1/$2" "$file.new"
  mv "$file.new" "$file"
}
