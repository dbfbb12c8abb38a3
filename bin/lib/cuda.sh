# shellcheck shell=bash
# The CUDA tool chain from PyPI, for machines that have none. Sourced by bin/nvrar.

cuda_directory() {
  "$NVRAR_HOME/native/cmake/find-nvcc" --installed
}

# find_nvcc: prints the nvcc that the build uses, or nothing if there is none.
find_nvcc() {
  "$NVRAR_HOME/native/cmake/find-nvcc" 2> /dev/null
}

ensure_cuda() {
  once "$(cuda_directory)" install_cuda
}

# install_cuda DIRECTORY LOG
install_cuda() {
  local dir="$1" log="$2" python toolkit reason
  [[ "$(uname -m)" == x86_64 ]] || die "the CUDA tool chain is installed on x86_64 only, and this is $(uname -m)"
  python="$(python_candidates | sed -n 1p)"
  say "installing the CUDA tool chain into $dir (once, 105 MB from PyPI; log: $log)"
  rm -rf "$dir"
  if "${OWN_PYTHON[@]}" "$python" -I -m venv "$dir" > "$log" 2>&1 &&
    "${OWN_PYTHON[@]}" "$dir/bin/python" -I -m pip install -q --disable-pip-version-check --no-cache-dir --retries 2 --no-deps --only-binary=:all: \
      --require-hashes -r "$NVRAR_HOME/native/cuda-requirements.txt" >> "$log" 2>&1 < /dev/null; then
    # The path contains the version of Python.
    for toolkit in "$dir"/lib/python3*/site-packages/nvidia/cu*; do
      ln -s "${toolkit#"$dir/"}" "$dir/toolkit"
    done
    if "$dir/toolkit/bin/nvcc" --version >> "$log" 2>&1; then
      return 0
    fi
  fi
  rm -rf "$dir"
  reason="$(sed -n 's/^ERROR: *//p' "$log" | tail -n 1)"
  # In that case pip reports that the package does not exist.
  if grep -q 'connection broken' "$log"; then
    reason='pip does not reach its package index, is there a network?'
  fi
  die "the CUDA tool chain could not be installed from PyPI${reason:+: $reason} (log: $log)"
}
