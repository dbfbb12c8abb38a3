#!/bin/sh
# The library exports the header's functions and no more, and needs nothing but the C library.
set -eu
library=$1
header=$2
sanitizer=${3:-}
declared=$(grep -oE '^NVRAR_API .*\(' "$header" | grep -oE 'nvrar_[a-z_]+\($' | tr -d '(' | sort)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
if [ "$declared" != "$exported" ]; then
  printf 'declared:\n%s\nexported:\n%s\n' "$declared" "$exported"
  exit 1
fi
if ! readelf -d "$library" | grep -q 'RUNPATH.*\[\$ORIGIN\]'; then
  echo "RUNPATH is not \$ORIGIN"
  exit 1
fi
[ -z "$sanitizer" ] || exit 0  # a sanitizer brings libraries of its own
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libpthread|ld-linux-x86-64)\.so' || true)
if [ -n "$needed" ]; then
  echo "needs: $needed"
  exit 1
fi
