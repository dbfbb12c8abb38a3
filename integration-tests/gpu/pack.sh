#!/usr/bin/env bash
# Packs what a GPU host without network, Java and Ray needs to run this project, and weighs it:
#
#   pack.sh [--ray VERSION] [--python VERSION] [--limit MIB] [DIRECTORY]
#
#   ray.txz    Ray's wheel for that host's Python, without the parts that no Java actor uses
#   jre.txz    a Java runtime made of this machine's JDK
#   nvrar.txz  this checkout as built here: jars with what they depend on, the tests and JUnit's console, libnvrar.so with its kernels
#              (for compute capability 9.0 only), the native test programs and nvrar_bench, the small models;
#              natives for linux-x86_64 only
#   host.sh    unpacks them over there and sets the environment
#
# DIRECTORY is target/nvrar/gpu-host if it is not named. The first two are made once for their versions (minutes, kept in ~/.cache/nvrar),
# the third each time. Default: Ray of bin/nvrar, Python 3.12, and 62 MiB for everything, more of which is a failure.
# Needs a JDK with jlink, Maven, pip and network here; nvcc by `bin/nvrar setup --cuda`.
set -euo pipefail

NVRAR_HOME="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)"
# shellcheck source=bin/lib/common.sh
. "$NVRAR_HOME/bin/lib/common.sh"
# shellcheck source=bin/lib/cuda.sh
. "$NVRAR_HOME/bin/lib/cuda.sh"
# shellcheck source=bin/lib/build.sh
. "$NVRAR_HOME/bin/lib/build.sh"

HERE="$NVRAR_HOME/integration-tests/gpu"
# What the tests need beside what the examples do.
TEST_GROUPS=org.assertj,org.awaitility,org.hamcrest

work=''
trap '[[ -z "$work" ]] || rm -rf --one-file-system "$work"' EXIT

# compress FILE: standard input, as small as it gets. Most of it is x86 code, and much of that is the same in several programs, which
# only a dictionary larger than they are can see.
compress() {
  xz --threads=1 --x86 --lzma2=preset=9e,dict=192MiB > "$1"
}

# kept NAME FUNCTION: where the archive that FUNCTION fills is kept; another one once the function, or what repacks
# jars, is another.
kept() {
  printf '%s/gpu-host/%s-%s.txz\n' "$NVRAR_CACHE" "$1" "$({ declare -f "$2" && cat "$HERE/repack.py"; } | sha256sum | head -c 8)"
}

# once_archived FILE FUNCTION ARGS...: FUNCTION DIRECTORY ARGS fills a directory, of which FILE is made unless it is there.
once_archived() {
  local file="$1" function="$2" directory="$work/archive"
  shift 2
  [[ -e "$file" ]] && return 0
  say "making $file"
  mkdir -p "$directory" "$(dirname "$file")"
  "$function" "$directory" "$@"
  tar -C "$directory" --sort=name --owner=0 --group=0 -c . | compress "$file.part"
  mv "$file.part" "$file"
  rm -rf "$directory"
}

# fill_ray DIRECTORY VERSION PYTHON: an environment like those of bin/nvrar, with the host's own Python. What Ray needs of other packages
# is in it, and in Ray's processes only: the host's own packages are of other versions.
fill_ray() {
  local site="$1/lib/python3/site-packages" wheel jar="$work/ray_dist" needs
  needs=(attrs certifi charset-normalizer click filelock idna jsonschema jsonschema-specifications msgpack packaging protobuf pyyaml
    referencing requests rpds-py typing-extensions urllib3)
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$3" --implementation cp \
    --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64 --dest "$work/wheels" \
    "ray==$2" "${needs[@]}"
  mkdir -p "$site"
  for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$site"
  done
  # The hashes and lists of what is in the wheels; hashes do not compress.
  rm -rf "$site"/*.dist-info/{RECORD,sboms}
  (cd "$site/ray" && rm -rf rllib data serve train tune llm dashboard/client core/libjemalloc.so)
  chmod +x "$site"/ray/core/src/ray/{gcs/gcs_server,raylet/raylet}
  find "$site" \( -name '*.so' -o -name gcs_server -o -name raylet \) -type f -exec strip --strip-unneeded {} +
  python3 -m zipfile -e "$site/ray/jars/ray_dist.jar" "$jar"
  strip --strip-unneeded "$jar"/native/linux/*.so
  python3 "$HERE/repack.py" "$jar" "$site/ray/jars/ray_dist.jar"
  "$(find_jdk)/bin/java" --add-opens=java.base/java.{lang,math,util,util.concurrent,net,text}=ALL-UNNAMED \
    -cp "$site/ray/jars/ray_dist.jar" "$HERE/RayEncodes.java"
  mkdir "$1/bin"
  # shellcheck disable=SC2016 # The script's own.
  script "$1/bin/python" 'PYTHONPATH="$(dirname "$(readlink -f "$0")")/../lib/python3/site-packages" exec python3 "$@"'
  # shellcheck disable=SC2016
  script "$1/bin/ray" 'exec "$(dirname "$(readlink -f "$0")")/python" -m ray.scripts.scripts "$@"'
}

# script FILE LINE
script() {
  printf '#!/bin/sh\n%s\n' "$2" > "$1"
  chmod +x "$1"
}

# fill_jre DIRECTORY JDK
fill_jre() {
  local modules=java.compiler,java.desktop,java.instrument,java.logging,java.management,java.naming,java.rmi,java.scripting,java.sql,java.xml
  modules+=,jdk.jfr,jdk.management,jdk.net,jdk.unsupported,jdk.zipfs
  rmdir "$1"
  # Of java.desktop, which is 5 MiB, Ray's logger needs java.beans; the rest goes but for a class of each package, which jlink insists on.
  "$2/bin/jmod" list "$2/jmods/java.desktop.jmod" | sed -n 's:^classes/:/java.desktop/:p' |
    awk '{ package = $0; sub(/[^\/]*$/, "", package) } !/module-info|\/java\/beans\/|\/com\/sun\/beans\// && seen[package]++' \
      > "$work/unused"
  "$2/bin/jlink" --add-modules "$modules" "--exclude-resources=@$work/unused" '--exclude-files=/java.desktop/**' \
    --strip-debug --no-man-pages --no-header-files --output "$1"
  # By which bin/nvrar knows a JDK; it compiles nothing there.
  script "$1/bin/javac" 'echo "javac: this is a runtime, without a compiler" >&2; exit 1'
}

# gpu_programs: the programs of the native tests for GPUs, in a build's directory.
gpu_programs() {
  ctest -L gpu --show-only=json-v1 |
    python3 -c 'import json, os, sys; print(*{os.path.relpath(test["command"][0]) for test in json.load(sys.stdin)["tests"]}, sep="\n")'
}

# fill_nvrar DIRECTORY RAY_VERSION: a checkout that has been built, as far as bin/nvrar, the examples and the tests need one.
fill_nvrar() {
  local root="$1" build="$1/target/nvrar/builds/packed" junit program file
  local -x NVRAR_CMAKE_OPTIONS=-DNVRAR_CUDA_ARCHITECTURES=90-real
  local package=(package -Dmaven.test.skip.exec -DskipNativeTests -Dnvrar.cmake.target=all -Djacoco.skip -Dmaven.javadoc.skip -Dmaven.source.skip
    -Dspotless.check.skip)
  junit="$(sed -n 's:.*<junit.version>5\(.*\)</junit.version>.*:1\1:p' "$NVRAR_HOME/pom.xml")"
  maven -pl integration-tests -am "${package[@]}" dependency:copy-dependencies "-DoutputDirectory=$work/jars" \
    "-DincludeGroupIds=$TEST_GROUPS"
  # Again, because those options hold for that module's own copies too.
  forget_libraries
  maven -pl "$LAUNCHED" -am "${package[@]}"
  maven dependency:copy "-Dartifact=org.junit.platform:junit-platform-console-standalone:$junit" "-DoutputDirectory=$work/junit" \
    -pl integration-tests
  mkdir -p "$build/lib" "$root"/{examples,integration-tests/soak,tests,native/build/release/{bench,test},native/cmake,ray-plugin,tools}
  for file in "$(packaged_jar "$NVRAR_HOME/$LAUNCHED/target")" "$(packaged_jar "$NVRAR_HOME/integration-tests/soak/target")" \
    "$NVRAR_HOME/$LAUNCHED"/target/lib/*.jar "$work"/jars/*.jar; do
    python3 "$HERE/repack.py" "$file" "$build/lib/${file##*/}"
  done
  touch "$build/users" "$build/kernels"
  ln -s builds/packed "$root/target/nvrar/current"
  python3 "$HERE/repack.py" "$work"/junit/*.jar "$root/tests/junit-console.jar"
  for file in integration-tests ray-plugin "$LAUNCHED"; do
    python3 "$HERE/repack.py" "$NVRAR_HOME/$file/target/test-classes" "$root/tests/$(basename "${file%-tests}")-tests.jar"
  done
  while read -r program; do
    strip --strip-unneeded -o "$root/native/build/release/$program" "$NVRAR_HOME/native/build/release/$program"
  done < <(cd "$NVRAR_HOME/native/build/release" && gpu_programs && find libnvrar.so bench -maxdepth 1 -type f -executable)
  while read -r file; do
    mkdir -p "$root/native/build/release/$(dirname "$file")"
    sed "s:$NVRAR_HOME/:@NVRAR_HOME@/:g" "$NVRAR_HOME/native/build/release/$file" > "$root/native/build/release/$file"
  done < <(cd "$NVRAR_HOME/native/build/release" && find . -name CTestTestfile.cmake)
  cp -r "$NVRAR_HOME/bin" "$root/bin"
  cp "$NVRAR_HOME/native/cmake/find-nvcc" "$root/native/cmake/"
  cp "$NVRAR_HOME/native/cuda-requirements.txt" "$root/native/"
  mkdir "$root/native/bench"
  cp "$NVRAR_HOME/native/bench/"peers{,_bench,_fusion,_plan}.py "$root/native/bench/"
  cp -r "$NVRAR_HOME/native/bench/report" "$root/native/bench/"
  mkdir -p "$root/examples/09-llama-decode/"{bench,model}
  cp "$NVRAR_HOME/examples/09-llama-decode/bench/torch_decode.py" "$root/examples/09-llama-decode/bench/"
  cp -r "$NVRAR_HOME/examples/09-llama-decode/test-models" "$root/examples/09-llama-decode/"
  cp -r "$NVRAR_HOME/examples/09-llama-decode/model/tiny-english" "$root/examples/09-llama-decode/model/"
  touch "$root/pom.xml"
  printf '%s\n' "$2" > "$root/ray-version"
}

limit=62
ray="$NVRAR_RAY_VERSION"
python=3.12
out="$NVRAR_STATE/gpu-host"
while (($#)); do
  case "$1" in
    --ray) ray="$2" && shift 2 ;;
    --python) python="$2" && shift 2 ;;
    --limit) limit="$2" && shift 2 ;;
    -*) die "there is no option '$1'; the head of pack.sh lists them" ;;
    *) out="$1" && shift ;;
  esac
done
jdk="$(find_jdk)" || die "there is no JDK 17 or newer"
find_nvcc > /dev/null || die "there is no nvcc, and a bundle without kernels is of no use; bin/nvrar setup --cuda gets one"
work="$(mktemp -d "${TMPDIR:-/var/tmp}/nvrar-pack.XXXXXX")"

ray_archive="$(kept "ray-$ray-python-$python" fill_ray)"
jre_archive="$(kept "jre-$(sed -n 's/^JAVA_VERSION="\(.*\)"/\1/p' "$jdk/release")" fill_jre)"
once_archived "$ray_archive" fill_ray "$ray" "$python"
once_archived "$jre_archive" fill_jre "$jdk"
rm -rf "$out"
mkdir -p "$out"
cp "$ray_archive" "$out/ray.txz"
cp "$jre_archive" "$out/jre.txz"
locked once_archived "$out/nvrar.txz" fill_nvrar "$ray"
cp "$HERE/host.sh" "$out/"

bytes=0
for file in "$out"/*; do
  size="$(stat -c %s "$file")"
  bytes=$((bytes + size))
  printf '%6.1f MiB  %s\n' "$((size * 10 / 1048576))e-1" "$file"
done
printf '%6.1f MiB  in all\n' "$((bytes * 10 / 1048576))e-1"
((bytes <= limit * 1048576)) || die "the bundle in $out is larger than $limit MiB"
