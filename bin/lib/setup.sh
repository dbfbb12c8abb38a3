# shellcheck shell=bash
# Installs what is missing: packages of the system, and Ray in a Python environment of its own. Sourced by bin/nvrar.

# Prints the Debian packages of whatever the build and Ray need and this machine lacks.
missing_packages() {
  find_jdk > /dev/null || echo openjdk-17-jdk-headless
  command -v mvn > /dev/null || echo maven
  command -v cmake > /dev/null || echo cmake
  command -v ninja > /dev/null || echo ninja-build
  command -v g++ > /dev/null || echo g++
  [[ -e /usr/include/gtest/gtest.h || -e /usr/local/include/gtest/gtest.h ]] || echo libgtest-dev
  [[ -n "$(python_candidates)" ]] || echo python3-venv
}

ensure_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ! command -v apt-get > /dev/null; then
    die "this machine lacks ${missing[*]} (Debian's names), and has no apt-get to install them: please install them and start again"
  fi
  if ((EUID != 0)); then
    say "this machine lacks: ${missing[*]}. Please run this, then start again:"
    printf '  sudo apt-get update && sudo apt-get install -y %s\n' "${missing[*]}" >&2
    exit 1
  fi
  mkdir -p "$NVRAR_STATE"
  local log="$NVRAR_STATE/apt.log"
  say "installing ${missing[*]} (log: $log)"
  # Lists first: on a fresh machine there are none, and old ones name packages that are gone.
  if ! {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update &&
      DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}"
  } > "$log" 2>&1 < /dev/null; then
    tail -n 15 "$log" >&2
    die "apt-get could not install ${missing[*]}; its last lines are above, all of them in $log"
  fi
  hash -r
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) || die "still missing after apt-get: ${missing[*]} (see $log)"
}

# ray_environment VERSION: the directory of the Python environment with that Ray.
ray_environment() {
  printf '%s/ray-%s\n' "$NVRAR_CACHE" "$1"
}

# ray_jar VERSION: the Java classes of that Ray.
ray_jar() {
  local jar
  for jar in "$(ray_environment "$1")"/lib/python3*/site-packages/ray/jars/ray_dist.jar; do
    printf '%s\n' "$jar"
    return 0
  done
}

# ensure_ray VERSION
ensure_ray() {
  local version="$1" dir
  dir="$(ray_environment "$version")"
  [[ -e "$dir/.complete" ]] && return 0
  # Private, because the native library is unpacked below it too and will not be loaded from where others may write.
  mkdir -p "$(dirname "$NVRAR_CACHE")"
  mkdir -m 700 "$NVRAR_CACHE" 2> /dev/null || [[ -d "$NVRAR_CACHE" ]] || die "the directory $NVRAR_CACHE cannot be made"
  (
    flock 9
    [[ -e "$dir/.complete" ]] && exit 0
    install_ray "$version" "$dir" "$dir.log" 9>&-
  ) 9> "$dir.lock"
}

install_ray() {
  local version="$1" dir="$2" log="$3" python pythons
  mapfile -t pythons < <(python_candidates)
  say "installing Ray $version into $dir (once; log: $log)"
  : > "$log"
  # Ray has wheels for some versions of Python only; which ones, pip knows.
  for python in "${pythons[@]}"; do
    rm -rf "$dir"
    if "$python" -m venv "$dir" >> "$log" 2>&1 &&
      "$dir/bin/pip" install -q --disable-pip-version-check --only-binary=:all: "ray==$version" >> "$log" 2>&1 < /dev/null &&
      [[ -s "$(ray_jar "$version")" ]]; then
      touch "$dir/.complete"
      return 0
    fi
    printf 'not with %s\n' "$python" >> "$log"
  done
  rm -rf "$dir"
  tail -n 15 "$log" >&2
  die "Ray $version could not be installed; the last lines of $log are above"
}
