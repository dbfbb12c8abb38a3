#!/usr/bin/env python3
"""check_sources.py SRC: the library's sources open descriptors only with close-on-exec, and ask the driver only for
functions that they call."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Functions that take a flag for it.
FLAGGED = "open|openat|socket|accept4|socketpair|memfd_create|timerfd_create|eventfd|epoll_create1|pipe2|dup3|inotify_init1|signalfd"
# Those that cannot, or by another name only. opendir, dlopen and directory_iterator do it by themselves.
REFUSED = r"::(accept|dup|dup2|pipe|creat|epoll_create|inotify_init|fopen|fdopen|tmpfile|mkstemp|popen|system)\(|\b[io]?fstream\b"


def statement_at(text: str, begin: int) -> str:
    depth = 0
    for end in range(text.index("(", begin), len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin : end + 1]
    return text[begin:]


def main(src: Path) -> int:
    wrong = []
    code = {file: file.read_text() for file in sorted(src.rglob("*")) if file.suffix in (".h", ".cpp")}
    for file, text in code.items():
        text = re.sub(r"//.*", "", text)
        for found in re.finditer(rf"(?<![\w:])::({FLAGGED})\(", text):
            call = statement_at(text, found.start())
            if "CLOEXEC" not in call:
                wrong.append(f"{file.relative_to(src)}: {' '.join(call.split())} opens a descriptor without close-on-exec")
        for found in re.finditer(REFUSED, text):
            wrong.append(f"{file.relative_to(src)}: {found.group(0)} opens a descriptor without close-on-exec")
    driver = code[src / "cuda/driver/driver.h"]
    required = driver.split("#define NVRAR_CUDA_FUNCTIONS(X)")[1].split("#define NVRAR_CUDA_TEST_FUNCTIONS")[0]
    rest = "\n".join(text for file, text in code.items() if file.name != "driver.h") + driver.split("struct Driver {")[1]
    for name in re.findall(r"X\((cu\w+)", required):
        if not re.search(rf"\b{name}\b", rest):
            wrong.append(f"{name} is required of the driver, and the library never calls it")
    print("\n".join(wrong) if wrong else f"{len(code)} files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
