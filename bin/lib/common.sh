# shellcheck shell=bash
# Functions that every part of the launcher uses. Sourced by bin/nvrar, which sets NVRAR_HOME.

# Services and containers may have no HOME; bash then takes it from the system's list of users.
if [[ -z "${HOME:-}" ]]; then
  unset HOME
  export HOME=~
fi

# JDK 17 decodes arguments and file names in the locale's encoding; ours are UTF-8.
if [[ "$(locale charmap 2> /dev/null)" != UTF-8 ]]; then
  { export LC_ALL=C.UTF-8; } 2> /dev/null
fi

# The options of Python for our own scripts and Ray: a user's ray.py or sitecustomize.py must not be loaded.
OWN_PYTHON=(env)
for variable in "${!PYTHON@}"; do
  OWN_PYTHON+=(-u "$variable")
done

NVRAR_CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/nvrar"
NVRAR_RAY_VERSION="${NVRAR_RAY_VERSION:-2.60.0}"
NVRAR_STATE="$NVRAR_HOME/target/nvrar"

say() {
  printf 'nvrar: %s\n' "$*" >&2
}

die() {
  say "$*"
  exit 1
}

verbose() {
  [[ -n "${NVRAR_DEBUG:-}" ]]
}

# The most files that this shell's children may open if they raise their own limit.
open_files() {
  local most
  most="$(ulimit -Hn)"
  if [[ "$most" == unlimited ]]; then
    most=1048576
  fi
  printf '%s\n' "$most"
}

# need_open_files COUNT: fails early, because Java would report the first file that it cannot open as missing.
need_open_files() {
  (($(open_files) >= $1)) || die "a process may open $(open_files) files here, and this command needs $1: raise the limit (ulimit -n)"
}

# The collector of our JVMs, unless the user has chosen one for all JVMs: two are an error.
COLLECTOR=(-XX:+UseSerialGC)
if [[ " ${JAVA_TOOL_OPTIONS:-} ${JDK_JAVA_OPTIONS:-} ${_JAVA_OPTIONS:-}" =~ [[:space:]]-XX:\+Use[A-Za-z0-9]+GC ]]; then
  COLLECTOR=()
fi

# java_major JDK_DIR: prints the feature version of a JDK, or nothing if there is none.
java_major() {
  [[ -x "$1/bin/javac" && -r "$1/release" ]] || return 0
  sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release"
}

# Prints the directory of the JDK to use: JAVA_HOME, the one on the PATH, or the first that the system has; 17 or newer.
find_jdk() {
  local on_path='' dir major
  if command -v javac > /dev/null; then
    on_path="$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")"
  fi
  for dir in "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
    [[ -n "$dir" ]] || continue
    major="$(java_major "$dir")"
    if [[ -n "$major" ]] && ((major >= 17)); then
      printf '%s\n' "$dir"
      return 0
    fi
  done
  return 1
}

# version_at_least HAVE WANT
version_at_least() {
  [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

# The oldest versions that the build works with.
MAVEN_OLDEST=3.8.7
CMAKE_OLDEST=3.25

# tool_version COMMAND: prints the first version number in the output of COMMAND --version, or nothing if there is none.
tool_version() {
  local jdk
  jdk="$(find_jdk)" || jdk=''
  # Options for all JVMs may print lines before the version.
  env -u JAVA_TOOL_OPTIONS -u JDK_JAVA_OPTIONS -u _JAVA_OPTIONS JAVA_HOME="$jdk" "$1" --version 2> /dev/null | sed -n '1{s/\x1b\[[0-9;]*m//g;s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p}'
}

# too_old COMMAND OLDEST: prints the command's version if it is older than OLDEST; nothing if it is not, or is unknown.
too_old() {
  local have
  have="$(tool_version "$1")" || true
  [[ -z "$have" ]] || version_at_least "$have" "$2" || printf '%s\n' "$have"
}

# Python interpreters, newest guess last: the system's own first, because its venv module is most likely to work.
python_candidates() {
  local name path
  for name in python3 python3.11 python3.12 python3.10 python3.13 python3.9; do
    path="$(command -v "$name")" || continue
    if "${OWN_PYTHON[@]}" "$path" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2> /dev/null; then
      printf '%s\n' "$path"
    fi
  done
}
