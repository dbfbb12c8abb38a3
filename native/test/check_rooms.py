#!/usr/bin/env python3
"""check_rooms.py SRC: in the library's sources includes point downwards only, from a room to those that it may know."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# From the bottom up: a room may know those that stand before it, and only those that it names.
ROOMS = {
    "common": "",
    "protocol": "",
    "call": "common protocol",
    "plan": "common call protocol",
    "shared": "common protocol",
    "link": "common protocol shared",
    "cuda/driver": "common protocol",
    "cuda/kernels/launch": "plan protocol",
    "cuda/kernels/allreduce": "protocol cuda/kernels/launch",
    "cuda/kernels/steps": "call protocol cuda/kernels/launch",
    "cuda/kernels/move": "call protocol cuda/kernels/launch",
    "cuda/kernels/top_k": "protocol cuda/kernels/launch",
    "cuda/proxy": "common protocol shared link",
    "cuda/kernels/crossing": "call protocol cuda/kernels/launch cuda/kernels/allreduce cuda/kernels/steps cuda/kernels/move",
    "cuda/launch": "common call plan protocol cuda/driver cuda/kernels/launch cuda/kernels/move",
    "cuda/nvshmem": "common cuda/driver",
    "cuda/memory": "common cuda/driver cuda/nvshmem",
    "member": "common call plan protocol shared link cuda/driver cuda/memory cuda/nvshmem",
    "cpu": "common call plan protocol shared link member",
    "cuda/member": "common call plan protocol shared link member cuda/driver cuda/kernels/launch cuda/kernels/move cuda/kernels/top_k cuda/kernels/crossing cuda/proxy cuda/launch cuda/memory",
    "api": "common call plan protocol shared link member cpu cuda/driver cuda/launch cuda/memory cuda/nvshmem cuda/member",
}
# Of the build and of the tests.
ELSEWHERE = ("fatbins.inc", "device")


def room_of(include: str) -> str | None:
    room = str(Path(include).parent)
    if room in ELSEWHERE or include in ELSEWHERE:
        return None
    # Kernels are compiled with src/cuda among the places to look.
    return f"cuda/{room}" if room.startswith("kernels/") else room


def main(src: Path) -> int:
    wrong = []
    below: set[str] = set()
    for room, known in ROOMS.items():
        wrong += [f"{room} may know {other}, which does not stand below it" for other in known.split() if other not in below]
        below.add(room)
    for file in sorted(path for path in src.rglob("*") if path.is_file()):
        room = str(file.parent.relative_to(src))
        if room not in ROOMS:
            wrong.append(f"{file.relative_to(src)} is in no room that check_rooms.py knows")
            continue
        for include in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            to = room_of(include)
            if to not in (None, room, *ROOMS[room].split()):
                wrong.append(f"{file.relative_to(src)} includes {include}: {room} may not know {to}")
    print("\n".join(wrong) if wrong else f"{len(ROOMS)} rooms, includes point downwards only")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
