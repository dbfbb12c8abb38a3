# shellcheck shell=bash
# What every part of the launcher uses. Sourced by bin/nvrar, which sets NVRAR_HOME.

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

# java_major JDK_DIR: the feature version of a JDK, nothing if there is none.
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

# The oldest that the build runs with.
MAVEN_OLDEST=3.8.7
CMAKE_OLDEST=3.25

# tool_version COMMAND: the first number with a dot that it says of itself, nothing if it says none.
tool_version() {
  local jdk
  jdk="$(find_jdk)" || jdk=''
  JAVA_HOME="$jdk" "$1" --version 2> /dev/null | sed -n '1{s/\x1b\[[0-9;]*m//g;s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p}'
}

# too_old COMMAND OLDEST: prints the version of a command that is there if it is older; nothing if it is new enough or says none.
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
    if "$path" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2> /dev/null; then
      printf '%s\n' "$path"
    fi
  done
}
