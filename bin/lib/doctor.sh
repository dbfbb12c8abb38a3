# shellcheck shell=bash
# bin/nvrar doctor: prints what was found, what is missing and how to install it. The Java command of the same name
# prints what the JVM sees. Sourced by bin/nvrar.

doctor_failed=''

# found WHAT DETAIL
found() {
  printf 'ok       %-16s %s\n' "$1" "$2"
}

# lacking WHAT DETAIL
lacking() {
  printf 'missing  %-16s %s\n' "$1" "$2"
  doctor_failed=yes
}

# optional WHAT DETAIL: reports something as absent without counting it as a failure.
optional() {
  printf 'absent   %-16s %s\n' "$1" "$2"
}

first_line() {
  "$@" 2>&1 | sed -n $'1{s/\e\\[[0-9;]*m//g;p}'
}

# tool WHAT COMMAND PACKAGE [OLDEST]
tool() {
  local old=''
  [[ -z "${4:-}" ]] || ! command -v "$2" > /dev/null || old="$(too_old "$2" "$4")"
  if [[ -n "$old" ]]; then
    lacking "$1" "$old is too old, $4 or newer is needed; $(cure "$3")"
  elif command -v "$2" > /dev/null; then
    found "$1" "$(first_line "$2" --version), $(command -v "$2")"
  else
    lacking "$1" "no '$2' on the PATH; $(cure "$3")"
  fi
}

# cure PACKAGE
cure() {
  printf 'bin/nvrar setup installs it as root, or: sudo apt-get install -y %s' "$1"
}

doctor_machine() {
  local kib
  found system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), Linux $(uname -r)"
  if [[ "$(uname -m)" == x86_64 ]]; then
    found cores "$(nproc), $(uname -m)"
  else
    lacking cores "$(uname -m); the native library and Ray's Java library are for x86_64 only"
  fi
  kib="$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
  found memory "$((kib / 1024)) MiB available"
  # Ray's object store and the collectives' segments live in shared memory.
  kib="$(df -k --output=avail /dev/shm 2> /dev/null | sed -n 2p || true)"
  if [[ -n "$kib" ]] && ((kib >= 256 * 1024)); then
    found /dev/shm "$((kib / 1024)) MiB available"
  else
    lacking /dev/shm "${kib:-0} KiB available, Ray needs about 256 MiB; in a container: docker run --shm-size=1g"
  fi
}

doctor_tools() {
  local jdk python
  if jdk="$(find_jdk)"; then
    found JDK "$(sed -n 's/^JAVA_VERSION="\(.*\)"/\1/p' "$jdk/release"), $jdk"
  else
    lacking JDK "no JDK 17 or newer in JAVA_HOME, on the PATH or in /usr/lib/jvm; $(cure openjdk-17-jdk-headless)"
  fi
  tool Maven mvn maven "$MAVEN_OLDEST"
  tool CMake cmake cmake "$CMAKE_OLDEST"
  tool Ninja ninja ninja-build
  tool compiler g++ g++
  if has_gtest; then
    found GoogleTest "its headers are there"
  else
    optional GoogleTest "no gtest/gtest.h in /usr/include or /usr/local/include, which only bin/nvrar test needs; $(cure libgtest-dev)"
  fi
  doctor_nvcc
  python="$(python_candidates | sed -n 1p)"
  if [[ -n "$python" ]]; then
    found Python "$(first_line "$python" --version), $python"
  else
    lacking Python "no Python 3.9 or newer with venv; $(cure python3-venv)"
  fi
  if [[ -e "$(ray_environment "$NVRAR_RAY_VERSION")/.complete" ]]; then
    found Ray "$NVRAR_RAY_VERSION, $(ray_environment "$NVRAR_RAY_VERSION")"
  else
    lacking Ray "$NVRAR_RAY_VERSION is not in $(ray_environment "$NVRAR_RAY_VERSION"); bin/nvrar setup installs it"
  fi
}

# nvcc is needed only for building, and only for GPUs.
doctor_nvcc() {
  local nvcc
  if nvcc="$(find_nvcc)"; then
    found nvcc "$("$nvcc" --version | sed -n 's/^Cuda compilation tools, release \([0-9.]*\).*/\1/p'), $nvcc"
  else
    optional nvcc "$("$NVRAR_HOME/native/cmake/find-nvcc" 2>&1 || true); only the GPU kernels need it, and bin/nvrar setup --cuda gets one"
  fi
}

# Whether the built library contains kernels.
doctor_kernels() {
  if [[ -e "$NVRAR_BUILD/kernels" ]]; then
    found kernels "libnvrar.so holds the GPU kernels"
  else
    optional kernels "libnvrar.so was built without the GPU kernels and runs on the CPU only; bin/nvrar setup --cuda builds it with them"
  fi
}

# The last line: what this machine and this build are fit for.
doctor_verdict() {
  local cpus='fit for groups on CPUs' gpus
  [[ -z "$doctor_failed" ]] || cpus='not fit yet: see what is missing above'
  if [[ ! -e /proc/driver/nvidia/version ]]; then
    gpus='no driver'
  elif ! has_gpu; then
    gpus='the driver lists none'
  elif [[ -z "$NVRAR_BUILD" || ! -e "$NVRAR_BUILD/kernels" ]]; then
    gpus='the library has no kernels (bin/nvrar setup --cuda)'
  else
    gpus='driver and kernels are there'
  fi
  printf 'summary  %s; GPUs: %s\n' "$cpus" "$gpus"
}

doctor() {
  if asks_for_help "$@"; then
    cat << 'END'
bin/nvrar doctor [--link-interface NAME] [--link-ports FIRST-LAST]: says what was found and what is missing; exits with 0 if nothing
is missing and the CPU backend runs. With options of links, which groups use that span hosts, also whether this host has what they name.
END
    return 0
  fi
  doctor_machine
  doctor_tools
  if ! is_built; then
    lacking build "not there, or older than the sources; bin/nvrar setup builds"
  else
    hold_build
    doctor_kernels
    if find_jdk > /dev/null; then
      (run_plain doctor "$@") || doctor_failed=yes
    fi
  fi
  doctor_verdict
  [[ -z "$doctor_failed" ]]
}
