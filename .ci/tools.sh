# shellcheck shell=bash
# Installs the tools that .ci/run and .ci/nightly need. Sourced.

# install PACKAGE...: installs them if this is possible here; otherwise does nothing.
install() {
  if ((EUID == 0)) && command -v apt-get > /dev/null; then
    { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"; } > /dev/null 2>&1 || true
  fi
}

# want TOOL [PACKAGE]: installs a tool that only these scripts need, unless it is there.
want() {
  command -v "$1" > /dev/null && return 0
  install "${2:-$1}"
  command -v "$1" > /dev/null
}

# lack TOOL PACKAGE: fails if apt-get could have installed the package; otherwise leaves the check out and prints that.
lack() {
  if command -v apt-get > /dev/null; then
    printf 'ci: %s is not there and could not be installed: apt-get install %s\n' "$1" "$2" >&2
    exit 1
  fi
  printf 'ci: left out: %s (this machine has no apt-get)\n' "$1"
}
