# shellcheck shell=bash
# Installs what is missing: packages of the system, and Ray in a Python environment of its own. Sourced by bin/nvrar.

has_gtest() {
  [[ -e /usr/include/gtest/gtest.h || -e /usr/local/include/gtest/gtest.h ]]
}

# lacks_tool COMMAND PACKAGE [OLDEST]: prints a line for missing_packages if the command is absent or too old.
lacks_tool() {
  local old
  if ! command -v "$1" > /dev/null; then
    printf '%s\t%s\n' "$2" "$2${3:+ $3 or newer}"
  elif [[ -n "${3:-}" ]]; then
    old="$(too_old "$1" "$3")"
    [[ -z "$old" ]] || printf '%s\t%s\n' "$2" "$2 $3 or newer (it has $old)"
  fi
}

lacks_native_tools() {
  lacks_tool cmake cmake "$CMAKE_OLDEST"
  lacks_tool ninja ninja-build
  lacks_tool g++ g++
}

lacks_build_tools() {
  lacks_tool mvn maven "$MAVEN_OLDEST"
  lacks_native_tools
}

# lacks_python DIRECTORY: prints such a line if DIRECTORY is not installed yet and no Python can install it.
lacks_python() {
  [[ -e "$1/.complete" || -n "$(python_candidates)" ]] || printf '%s\t%s\n' python3-venv 'python3-venv 3.9 or newer'
}

# missing_packages NEED...: prints what this machine lacks, one per line: the Debian package, a tab, its name for a
# sentence. NEED: build (needs nothing if the build is done), ray, cuda, site and plots (likewise), native (to build
# native programs), bench, tests.
missing_packages() {
  local need
  find_jdk > /dev/null || printf '%s\t%s\n' openjdk-17-jdk-headless 'openjdk-17-jdk-headless or a newer JDK'
  for need in "$@"; do
    case "$need" in
      build)
        is_built || lacks_build_tools
        ;;
      ray)
        lacks_python "$(ray_environment "$NVRAR_RAY_VERSION")"
        ;;
      cuda)
        lacks_python "$(cuda_directory)"
        ;;
      site)
        lacks_python "$(requirements_environment site "$SITE_REQUIREMENTS")"
        lacks_tool mvn maven "$MAVEN_OLDEST"
        ;;
      bench)
        command -v python3 > /dev/null || printf '%s\t%s\n' python3 'python3 3.9 or newer'
        ;;
      plots)
        lacks_python "$(requirements_environment plots "$PLOTS_REQUIREMENTS")"
        ;;
      native)
        lacks_native_tools
        ;;
      tests)
        lacks_build_tools
        has_gtest || printf '%s\t%s\n' libgtest-dev libgtest-dev
        ;;
    esac
  done
}

# read_missing NEED...: sets missing (the packages) and lacking_what (their names for a sentence).
read_missing() {
  local lines
  mapfile -t lines < <(missing_packages "$@")
  missing=("${lines[@]%%$'\t'*}")
  lacking_what="$(printf ', %s' "${lines[@]#*$'\t'}")"
  lacking_what="${lacking_what:2}"
}

# ensure_packages NEED...: installs what missing_packages prints, or exits and asks the user to install it.
ensure_packages() {
  local missing lacking_what
  read_missing "$@"
  ((${#missing[@]})) || return 0
  if ! command -v apt-get > /dev/null; then
    die "this machine lacks $lacking_what (Debian's names), and has no apt-get to install them: please install them and start again"
  fi
  if ((EUID != 0)); then
    say "this machine lacks $lacking_what. Please run this, then start again:"
    printf '  sudo apt-get update && sudo apt-get install -y %s\n' "${missing[*]}" >&2
    exit 1
  fi
  mkdir -p "$NVRAR_STATE"
  local log="$NVRAR_STATE/apt.log"
  say "installing ${missing[*]} (log: $log)"
  # Updates the package lists first: a fresh machine has none, and old ones name packages that no longer exist.
  if ! {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update &&
      DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}"
  } > "$log" 2>&1 < /dev/null; then
    tail -n 15 "$log" >&2
    die "apt-get could not install ${missing[*]}; its last lines are above, all of them in $log"
  fi
  hash -r
  read_missing "$@"
  ((${#missing[@]} == 0)) || die "after apt-get this machine still lacks $lacking_what (see $log)"
}

# NVRAR_RAY_VERSION becomes part of paths, and of what pip installs.
check_ray_version() {
  [[ "$NVRAR_RAY_VERSION" =~ ^[0-9]+(\.[0-9]+)+([a-z]+[0-9]+)?$ ]] ||
    die "NVRAR_RAY_VERSION is '$NVRAR_RAY_VERSION', must be a version such as 2.60.0"
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

# once DIRECTORY FUNCTION ARGS...: unless DIRECTORY is complete, calls FUNCTION DIRECTORY LOG ARGS to install it. An
# interrupted installation starts again from the beginning. If two processes want the same directory, one waits.
once() {
  local dir="$1" function="$2"
  shift 2
  [[ -e "$dir/.complete" ]] && return 0
  # Private, because the native library is unpacked below it too and will not be loaded from where others may write.
  mkdir -p "$(dirname "$NVRAR_CACHE")" 2> /dev/null || true
  mkdir -m 700 "$NVRAR_CACHE" 2> /dev/null || [[ -d "$NVRAR_CACHE" ]] || die "the directory $NVRAR_CACHE cannot be made"
  (
    flock 9
    [[ -e "$dir/.complete" ]] && exit 0
    "$function" "$dir" "$dir.log" "$@" 9>&-
    touch "$dir/.complete"
  ) 9> "$dir.lock"
}

# install_requirements DIRECTORY LOG FILE NAME PIP_OPTIONS...: makes a Python environment with the packages that FILE lists.
install_requirements() {
  local dir="$1" log="$2" python
  say "installing $4 into $dir (once; log: $log)"
  rm -rf "$dir"
  python="$(python_candidates | sed -n 1p)"
  "${OWN_PYTHON[@]}" "$python" -I -m venv "$dir" > "$log" 2>&1 &&
    "${OWN_PYTHON[@]}" "$dir/bin/python" -I -m pip install -q --disable-pip-version-check --retries 2 --only-binary=:all: \
      "${@:5}" -r "$3" >> "$log" 2>&1 < /dev/null && return 0
  rm -rf "$dir"
  tail -n 15 "$log" >&2
  die "$4 could not be installed; the last lines of $log are above"
}

# requirements_environment NAME FILE: the directory of such an environment, another one whenever the packages change.
requirements_environment() {
  printf '%s/%s-%s\n' "$NVRAR_CACHE" "$1" "$(sha256sum < "$2" | head -c 8)"
}

# ensure_ray VERSION
ensure_ray() {
  once "$(ray_environment "$1")" install_ray "$1"
}

# install_ray DIRECTORY LOG VERSION
install_ray() {
  local dir="$1" log="$2" version="$3" python pythons
  mapfile -t pythons < <(python_candidates)
  say "installing Ray $version into $dir (once; log: $log)"
  : > "$log"
  # Ray has wheels only for some versions of Python, and only pip knows for which ones.
  for python in "${pythons[@]}"; do
    rm -rf "$dir"
    if "${OWN_PYTHON[@]}" "$python" -I -m venv "$dir" >> "$log" 2>&1 &&
      "${OWN_PYTHON[@]}" "$dir/bin/python" -I -m pip install -q --disable-pip-version-check --only-binary=:all: "ray==$version" >> "$log" 2>&1 < /dev/null &&
      [[ -s "$(ray_jar "$version")" ]]; then
      return 0
    fi
    printf 'not with %s\n' "$python" >> "$log"
  done
  rm -rf "$dir"
  tail -n 15 "$log" >&2
  die "Ray $version could not be installed; the last lines of $log are above"
}
