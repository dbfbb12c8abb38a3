# shellcheck shell=bash
# Starts the Java side: plain, or as the driver of a Ray cluster that lives exactly as long as the command. Sourced by bin/nvrar.

# What every JVM of ours needs on JDK 17 and newer: six packages that Ray's serializer opens, native access for
# JNA, and Kryo without sun.misc.Unsafe, which newer JDKs warn about.
JVM_OPTIONS=(
  --add-opens=java.base/java.lang=ALL-UNNAMED
  --add-opens=java.base/java.math=ALL-UNNAMED
  --add-opens=java.base/java.util=ALL-UNNAMED
  --add-opens=java.base/java.util.concurrent=ALL-UNNAMED
  --add-opens=java.base/java.net=ALL-UNNAMED
  --add-opens=java.base/java.text=ALL-UNNAMED
  --enable-native-access=ALL-UNNAMED
  -Dkryo.unsafe=false
)
# Options of env by which what the user has set for other clusters, such as their address, certificates and tokens, does
# not reach a private one. Ray's settings of its inner workings have small letters and stay.
FOREIGN_RAY=()
for variable in "${!RAY_@}"; do
  if [[ "$variable" =~ ^RAY_([A-Z0-9_]+|gcs_storage)$ ]]; then
    FOREIGN_RAY+=(-u "$variable")
  fi
done

# The driver computes little and should start fast. It writes no performance file: a killed JVM leaves it behind.
# Text is UTF-8 in every locale (stdout.encoding on JDK 19 and newer, sun.stdout.encoding before).
DRIVER_OPTIONS=("${COLLECTOR[@]}" -XX:TieredStopAtLevel=1 -XX:-UsePerfData
  -Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8 -Dsun.stdout.encoding=UTF-8)
WORKER_OPTIONS=("${JVM_OPTIONS[@]}" "${COLLECTOR[@]}" -XX:-UsePerfData)

# Open files: 40 jars and JDK modules, and in rank 0 a few for each of the other ranks; Ray's processes also have their
# connections.
PLAIN_FILES=256
RAY_FILES=1024

STARTUP_S=90
KEEPER_START_S=30
DRIVER_STOP_S=5
KEEPER_STOP_S=20
SHARE_S=20

driver_pid=''
keeper_pid=''
cluster_dir=''
sharing=()
sharing_pid=''
readers=()
messages=''
lost=''

# The jars of a lesson that no other command needs.
lesson_jars=()

# our_jars [with-logger]: our classes and their libraries, joined by colons. Ray brings a logger of its own.
our_jars() {
  local jar path=''
  for jar in "$NVRAR_BUILD"/lib/*.jar "${lesson_jars[@]}"; do
    case "$jar" in
      */slf4j-simple-*) [[ "${1:-}" == with-logger ]] || continue ;;
    esac
    path+=":$jar"
  done
  printf '%s\n' "${path#:}"
}

# run_plain COMMAND ARGS...: replaces this shell, so that signals and the exit code are passed on directly.
run_plain() {
  local jdk options=()
  need_open_files "$PLAIN_FILES"
  jdk="$(find_jdk)"
  if [[ -d "$NVRAR_BUILD/bench" ]]; then
    options+=("-Dnvrar.bench.programs=$NVRAR_BUILD/bench")
  fi
  exec "$jdk/bin/java" "${DRIVER_OPTIONS[@]}" "${JVM_OPTIONS[@]}" "-Dnvrar.home=$NVRAR_HOME" "${options[@]}" \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$(our_jars with-logger)" io.nvrar.tools.Main "$@"
}

# run_ray COMMAND ARGS...: runs the command on the cluster that --address names, or else on a new one. A new one offers
# the machine's GPUs; with --backend cpu, or if there are none, pretended ones.
run_ray() {
  local command="$1" argument before='' address='' backend='' jars jdk ray_dist options=() environment=() i code=0
  shift
  need_open_files "$RAY_FILES"
  for argument in "$@"; do
    [[ "$argument" == --address || "$argument" == --address=* ]] && address=given
    [[ "$before" == --backend ]] && backend="${argument,,}"
    [[ "$argument" == --backend=* ]] && backend="${argument#*=}" && backend="${backend,,}"
    before="$argument"
  done
  jdk="$(find_jdk)"
  jars="$(our_jars)"
  ray_dist="$(ray_jar "$NVRAR_RAY_VERSION")"

  trap 'let_go' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  start_keeper "$address" "$jdk" "$backend"
  if [[ -z "$address" ]]; then
    # The driver asks the keeper for a cluster when it has found nothing wrong with its options.
    options+=("-Dnvrar.cli.keeper=$cluster_dir" "-Dnvrar.cli.keeper.pid=$keeper_pid")
    environment+=("${FOREIGN_RAY[@]}")
    share_classes "$jdk" "$ray_dist"
    if [[ -w "$NVRAR_STATE" ]]; then
      options+=("-Dnvrar.cli.ray.logs=$NVRAR_STATE/ray-logs")
    fi
  fi

  start_error_streams
  for i in "${!WORKER_OPTIONS[@]}"; do
    options+=("-Dray.job.jvm-options.$i=${WORKER_OPTIONS[$i]}")
  done
  options+=("-Dray.job.code-search-path=$jars" -Dray.logging.level=WARN "-Dlog4j2.configurationFile=$NVRAR_HOME/bin/lib/log4j2.xml"
    "-Dnvrar.cli.stderr=$messages")
  env "${environment[@]}" RAY_BACKEND_LOG_LEVEL=warning "$jdk/bin/java" "${DRIVER_OPTIONS[@]}" "${JVM_OPTIONS[@]}" "-Dnvrar.home=$NVRAR_HOME" "${options[@]}" \
    -cp "$ray_dist:$jars" io.nvrar.tools.Main "$command" "$@" <&0 2> "$cluster_dir/err" 6>&- 7>&- 8>&- 9<&- &
  driver_pid=$!
  printf 'driver %s\n' "$driver_pid" >&8
  # Hides the shell's own message about a process that was killed by a signal; the messages below report it.
  { wait "$driver_pid" || code=$?; } 2> /dev/null
  driver_pid=''
  end_error_streams
  # The query also makes the keeper keep the logs.
  if ((code != 0)) && cluster_is_lost; then
    # The driver may have ended in the middle of a line of text.
    if [[ /proc/self/fd/1 -ef /proc/self/fd/2 ]]; then
      printf '\n' >&2
    fi
    say "$lost"
    exit 1
  fi
  if ((code == 137)); then
    say "the driver was killed"
  fi
  exit "$code"
}

# share_classes JDK RAY_DIST: has workers load the classes of Ray and of the JDK from an archive (class data sharing), which
# starts them a fifth sooner. If there is no archive yet, the workers list their classes, and let_go makes one. If the user
# has options for all JVMs, workers use no archive: a JVM refuses an archive made under other options, and then also
# does without the JDK's own.
share_classes() {
  local archive
  [[ -z "${JAVA_TOOL_OPTIONS:-}${JDK_JAVA_OPTIONS:-}${_JAVA_OPTIONS:-}" ]] || return 0
  archive="$(ray_environment "$NVRAR_RAY_VERSION")/workers-$(cksum < "$1/release" | cut -d ' ' -f 1).jsa"
  if [[ -e "$archive" ]]; then
    WORKER_OPTIONS+=("-XX:SharedArchiveFile=$archive")
  elif [[ -w "${archive%/*}" && ! -e "$archive.failed" ]]; then
    mkdir "$cluster_dir/classes"
    WORKER_OPTIONS+=("-XX:DumpLoadedClassList=$cluster_dir/classes/%p")
    sharing=("$archive" "$1/bin/java" "${COLLECTOR[@]}" -cp "${2%/*}/*:")
  fi
}

# make_archive ARCHIVE JAVA OPTIONS...: makes it from the longest list, and tries whether a JVM takes it; if not, leaves a
# file that says why, and no command tries again.
make_archive() {
  local archive="$1" new="$1.$$" list
  shift
  find "${archive%/*}" -maxdepth 1 -name 'workers-*.jsa.[0-9]*' -mmin +10 -delete
  list="$(find "$cluster_dir/classes" -type f -printf '%s %p\n' | sort -n | sed -n '$s/^[0-9]* //p')"
  [[ -n "$list" ]] || return 0 # The command has started no worker.
  # Moved, because the keeper may remove the directory meanwhile.
  if mv "$list" "$new.list" &&
    timeout -s KILL "$SHARE_S" "$@" -Xshare:dump "-XX:SharedClassListFile=$new.list" "-XX:SharedArchiveFile=$new" &&
    timeout -s KILL "$SHARE_S" "$@" -Xshare:on "-XX:SharedArchiveFile=$new" -version; then
    mv "$new" "$archive"
  fi > "$new.log" 2>&1
  [[ -e "$archive" ]] || mv "$new.log" "$archive.failed"
  rm -f "$new" "$new".*
}

# Splits the driver's standard error. Messages for the user are passed through unchanged, even partial lines. Of the
# output of Ray's native code and its logger, the lines that they print at every start, and cannot be told not to, are
# removed.
start_error_streams() {
  local noise='^\[[^]]* I [0-9]+ [0-9]+\] |^[^ ]+ [^ ]+ INFO (Starting|Stopping|Configuration) '
  if verbose; then
    noise='^$'
  fi
  mkfifo "$cluster_dir/err"
  grep --line-buffered -Ev "$noise" < "$cluster_dir/err" >&2 8>&- 9<&- &
  readers=("$!")
  # This shell also opens the pipe for writing, so that the readers do not end before the driver has opened it.
  exec 7> "$cluster_dir/err"
  if [[ -t 2 ]]; then
    messages="$(readlink -f /proc/self/fd/2)"
    return
  fi
  # Does not reopen the file behind standard error by its name: output through two openings would overwrite each other.
  messages="$cluster_dir/messages"
  mkfifo "$messages"
  cat < "$messages" >&2 7>&- 8>&- 9<&- &
  readers+=("$!")
  exec 6> "$messages"
}

# Waits until the driver's output has been written.
end_error_streams() {
  local reader
  exec 6>&- 7>&-
  for reader in "${readers[@]}"; do
    gone_within 2 "$reader" || kill "$reader" 2> /dev/null || true
  done
  readers=()
}

# start_keeper ADDRESS JDK BACKEND: starts the process that owns the cluster, and that outlives this shell only until it
# has cleaned up; see keeper.py.
start_keeper() {
  local options=(--on-demand) environment directory variable without=() nvshmem="${NVSHMEM_HOME:-}" path
  # Not below TMPDIR: the path must be short, because the names of the unix sockets below it are limited to 107
  # characters.
  cluster_dir="$(mktemp -d /tmp/nvrar.XXXXXX)"
  mkfifo "$cluster_dir/in" "$cluster_dir/out"
  environment="$(ray_environment "$NVRAR_RAY_VERSION")"
  if [[ -z "$1" ]]; then
    options+=(--ray "$environment/bin/ray")
    without=("${FOREIGN_RAY[@]}")
    # Actors' collector is RayActorGroup's.
    for variable in JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS; do
      if [[ -n "${!variable:-}" ]]; then
        without+=("$variable=$(sed -E 's/(^|[[:space:]])-XX:\+Use[A-Za-z0-9]+GC//g' <<< "${!variable}")")
      fi
    done
  fi
  if [[ "$3" == cpu ]]; then
    options+=(--pretended-gpus 8)
  fi
  if ! verbose; then
    options+=(--only-failures)
  fi
  if [[ -w "$NVRAR_STATE" ]]; then
    options+=(--keep-logs "$NVRAR_STATE/ray-logs")
  fi
  # Actors use PYTHONPATH only to find NVSHMEM, so NVSHMEM_HOME replaces it.
  IFS=: read -ra path <<< "${PYTHONPATH:-}"
  for directory in "${path[@]}"; do
    if [[ -z "$nvshmem" && -d "$directory/nvidia/nvshmem" ]]; then
      nvshmem="$directory/nvidia/nvshmem"
    fi
  done
  # The raylet starts its Java workers with the first java on the PATH.
  "${OWN_PYTHON[@]}" "${without[@]}" RAY_USAGE_STATS_ENABLED=0 PATH="$2/bin:$environment/bin:$PATH" \
    ${nvshmem:+"NVSHMEM_HOME=$nvshmem"} "$environment/bin/python" -I "$NVRAR_HOME/bin/lib/keeper.py" --directory "$cluster_dir" --deadline "$STARTUP_S" "${options[@]}" \
    < "$cluster_dir/in" > "$cluster_dir/out" &
  keeper_pid=$!
  # 8 and 9 are the ends of the pipes to and from the keeper. The driver must not inherit them, or it would keep the
  # cluster alive after this shell has died.
  exec 8> "$cluster_dir/in" 9< "$cluster_dir/out"
  read -r -t "$KEEPER_START_S" _ <&9 || die "the process that keeps the Ray cluster has ended without a message"
}

# Whether the cluster has ended by itself, which ends the driver in one way or another; if so, sets lost.
cluster_is_lost() {
  local word
  # Ignores SIGPIPE, which writing to a keeper that has exited would raise.
  (trap '' PIPE && printf 'ended\n' >&8) 2> /dev/null || return 1
  read -r -t 5 word lost <&9 && [[ "$word" == lost ]]
}

# gone_within SECONDS PID
gone_within() {
  local tries=$(($1 * 20))
  while kill -0 "$2" 2> /dev/null; do
    ((tries-- > 0)) || return 1
    sleep 0.05
  done
}

# Ends the driver if it still runs, then the cluster. Runs however this shell ends, except by SIGKILL; then the keeper
# does both.
let_go() {
  local code=$?
  trap '' HUP INT TERM
  if [[ -n "$driver_pid" ]]; then
    # Also hides the shell's message about it: Ray's native code may react to SIGTERM with abort().
    {
      kill -TERM "$driver_pid" && gone_within "$DRIVER_STOP_S" "$driver_pid" || kill -KILL "$driver_pid" || true
      wait "$driver_pid" || true
    } 2> /dev/null
  fi
  end_error_streams
  if ((code == 0 && ${#sharing[@]} > 0)); then
    make_archive "${sharing[@]}" > /dev/null 2>&1 < /dev/null 8>&- 9<&- &
    sharing_pid=$!
  fi
  if [[ -n "$keeper_pid" ]]; then
    exec 8>&-
    if ! gone_within "$KEEPER_STOP_S" "$keeper_pid"; then
      say "the Ray cluster in $cluster_dir does not end; its keeper is process $keeper_pid"
    fi
  fi
  [[ -z "$sharing_pid" ]] || wait "$sharing_pid" || true
  [[ -z "$cluster_dir" ]] || rm -rf "$cluster_dir"
  exit "$code"
}
