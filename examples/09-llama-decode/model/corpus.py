#!/usr/bin/env python3
"""Builds the training text from two Debian packages.

Usage: corpus.py [--output corpus.txt]        (needs apt-get and dpkg)

Sources:
  bible-kjv, bible-kjv-text   the King James Version of 1611, whose copyright has expired
  r-cran-janeaustenr          the six novels of Jane Austen (1775-1817) from Project Gutenberg,
                              in the public domain; the package around them is under the MIT licence

Format of the result: each document (one chapter) is a line of a form feed and the source's name,
followed by the chapter's text. Verse numbers, chapter headings and hard line breaks are left out.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

PACKAGES = ["bible-kjv", "bible-kjv-text", "r-cran-janeaustenr"]

VERSE = re.compile(r"^(\d?[A-Za-z]+)\s*(\d+):(\d+) (.*)$")
HEADING = re.compile(r"^(?:CHAPTER|Chapter)\s+(?:[IVXLC]+|\d+)\b")
# Volume headings and end marks stand between chapters, so a chapter's text would end in one.
FURNITURE = re.compile(r"^(?:VOLUME|Volume)\s+[IVX\d]+\.?$|^\W*(?:THE END|The End|FINIS|Finis)\W*$")
# Notes of the transcribers and printers, which are no part of the novels.
EDITORIAL = re.compile(r"^\[.*\]$|^\(End of volume \w+\.\)$")

CHARSXP = 0x09
STRSXP = 0x10


def unpack(into: Path) -> None:
    subprocess.run(["apt-get", "-qq", "download", *PACKAGES], cwd=into, check=True)
    for package in sorted(into.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(into)], check=True)


def bible(root: Path) -> list[str]:
    """The verses of each chapter, joined."""
    # "-f" switches the pretty-printing off, whose line breaks and headings would have to be undone.
    listing = subprocess.run(
        [str(root / "usr/bin/bible"), "-f", "-p", str(root / "usr/lib"), "gen1:1-rev22:21"],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    ).stdout
    chapters: dict[tuple[str, str], list[str]] = {}
    for line in listing.splitlines():
        verse = VERSE.match(line)
        if verse:
            chapters.setdefault((verse[1], verse[2]), []).append(verse[4].strip())
    return [" ".join(verses) for verses in chapters.values()]


def r_strings(data: bytes) -> list[str]:
    """The strings of an R character vector, serialised in R's big-endian XDR form."""
    # Reading this by hand spares everyone an R installation for one character vector per novel.
    if data[:2] != b"X\n":
        raise ValueError("not an XDR serialisation")
    start = 14
    if struct.unpack_from(">i", data, 2)[0] == 3:
        start += 4 + struct.unpack_from(">i", data, 14)[0]
    flags, count = struct.unpack_from(">ii", data, start)
    if flags & 0xFF != STRSXP:
        return []
    at = start + 8
    lines = []
    for _ in range(count):
        flags, length = struct.unpack_from(">ii", data, at)
        if flags & 0xFF != CHARSXP:
            raise ValueError("a character vector holds something else than strings")
        at += 8
        lines.append(data[at : at + max(length, 0)].decode())
        at += max(length, 0)
    return lines


def r_objects(path: Path) -> list[bytes]:
    """The objects of an R lazy-load database: each a length, then that much of a zlib stream."""
    data = path.read_bytes()
    objects = []
    at = 0
    while at + 4 < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        inflater = zlib.decompressobj()
        objects.append(inflater.decompress(data[at + 4 :]))
        at = len(data) - len(inflater.unused_data)
        if len(objects[-1]) != size:
            raise ValueError(f"{path}: an object of {len(objects[-1])} bytes, not {size}")
    return objects


def chapter_text(lines: list[str]) -> str:
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        line = line.strip()
        if FURNITURE.match(line):
            continue
        if line:
            paragraphs[-1].append(line.replace("_", ""))
        elif paragraphs[-1]:
            paragraphs.append([])
    joined = [re.sub(r"\s+", " ", " ".join(p)) for p in paragraphs if p]
    return "\n".join(p for p in joined if not EDITORIAL.match(p))


def austen(root: Path) -> list[str]:
    chapters = []
    for data in r_objects(root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"):
        lines = r_strings(data)
        # What precedes the first heading is a title page.
        starts = [i for i, line in enumerate(lines) if HEADING.match(line.strip())]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            chapters.append(chapter_text(lines[start + 1 : end]))
    # A table of contents yields headings with nothing under them.
    return [chapter for chapter in chapters if len(chapter) > 500]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("corpus.txt"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack(root)
        documents = [("bible", text) for text in bible(root)]
        documents += [("austen", text) for text in austen(root)]
    args.output.write_text("".join(f"\f{name}\n{text}\n" for name, text in documents))
    for source in ("bible", "austen"):
        texts = [text for name, text in documents if name == source]
        print(f"{source}: {len(texts)} chapters, {sum(len(t.encode()) for t in texts)} bytes")


if __name__ == "__main__":
    main()
