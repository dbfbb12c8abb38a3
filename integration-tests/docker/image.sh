#!/usr/bin/env bash
# image.sh RAY_VERSION: prints the name of the image of which the cluster's containers are made, and makes it if this Docker engine
# has none of the same content. Its base is the official image of this machine's release, because libnvrar was linked here; where
# no registry can be reached, root on Debian makes the same from apt's packages. NVRAR_DOCKER_BASE names another base.
set -euo pipefail

ray="$1"
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
certificates=/usr/local/share/ca-certificates
work=''
trap '[[ -z "$work" ]] || rm -rf --one-file-system "$work"' EXIT

say() {
  printf 'image: %s\n' "$*" >&2
}

has_image() {
  docker image inspect "$1" > /dev/null 2>&1
}

# Prints the name of this machine's release as images are named, and Debian's where there may be none.
release() {
  # shellcheck source=/dev/null
  . /etc/os-release
  case "${ID:-}" in
    debian | ubuntu) printf '%s:%s\n' "$ID" "$VERSION_CODENAME" ;;
    *) printf 'debian:bookworm\n' ;;
  esac
}

# make_base NAME CODENAME: a base image without a registry, from the mirror that this machine's apt uses.
make_base() {
  local mirror
  if ((EUID != 0)) || ! command -v debootstrap > /dev/null; then
    say "no registry has given the base image; please pull one and name it in NVRAR_DOCKER_BASE, or run this as root with debootstrap installed"
    return 1
  fi
  # shellcheck disable=SC2016 # apt's own variable
  mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $2" 'Component: main' | head -n 1)"
  say "making $1 with debootstrap"
  debootstrap --variant=minbase "$2" "$work/root" ${mirror:+"$mirror"} >&2
  tar -C "$work/root" -c . | docker import - "$1" > /dev/null
}

# Prints the name of a base image that the engine has.
base_image() {
  local official="${NVRAR_DOCKER_BASE:-$1}" own="nvrar-base:${1#*:}"
  if has_image "$official"; then
    printf '%s\n' "$official"
  elif has_image "$own"; then
    printf '%s\n' "$own"
  elif timeout 300 docker pull -q "$official" >&2; then
    printf '%s\n' "$official"
  else
    make_base "$own" "${1#*:}"
    printf '%s\n' "$own"
  fi
}

# Its own sentence says why it does not answer.
timeout 30 docker version > /dev/null

work="$(mktemp -d "${TMPDIR:-/var/tmp}/nvrar-image.XXXXXX")"
mkdir -p "$work/context/certs"
cp "$here/Dockerfile" "$work/context/"
# What a site's own proxy or mirror signs with must be trusted in there too.
find "$certificates" -name '*.crt' -exec cp -t "$work/context/certs" {} + 2> /dev/null || true

release="$(release)"
content="$({
  printf '%s\n' "$ray" "$release" "${NVRAR_DOCKER_BASE:-}"
  (cd "$work/context" && find . -type f -exec sha256sum {} + | sort)
} | sha256sum)"
image="nvrar-test:ray-$ray-${content:0:12}"

if ! has_image "$image"; then
  SECONDS=0
  base="$(base_image "$release")"
  docker build -q -t "$image" --build-arg "BASE=$base" --build-arg "RAY=$ray" "$work/context" >&2
  say "made $image in $SECONDS s"
fi
printf '%s\n' "$image"
