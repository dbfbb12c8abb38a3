#!/usr/bin/env python3
"""repack.py SOURCE OUTPUT.jar: writes a jar, or a directory of classes, as a jar without compression and without what only other platforms
than linux-x86_64 load. Uncompressed, because the archive that it goes into compresses far better what it can see.
"""

import os
import re
import sys
import zipfile

NATIVE = re.compile(r"\.(so|dll|dylib|jnilib|a)$")
OURS = re.compile(r"linux[-/_]x86[-_]64|^native/linux/", re.IGNORECASE)
# JCuda's compiler, and of Ray's jar its web pages, Ray Serve and what only that uses, and libraries that Ray packs and never loads.
UNUSED = re.compile(
    r"^lib/libJNv|^META-INF/resources/|^io/ray/serve/|^org/(testng|mozilla/javascript|joda|apache/hc)/|^com/sun/xml/|^javax/mail/"
    r"|^com/google/i18n/")
# A fixed date, so that the same classes give the same archive.
DATE = (2026, 1, 1, 0, 0, 0)


def wanted(name):
    return not UNUSED.search(name) and (not NATIVE.search(name) or OURS.search(name))


def of_jar(path):
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if not name.endswith("/"):
                yield name, jar.read(name)


def of_directory(path):
    for directory, _, files in os.walk(path):
        for file in files:
            full = os.path.join(directory, file)
            with open(full, "rb") as content:
                yield os.path.relpath(full, path), content.read()


def main():
    source, output = sys.argv[1:]
    entries = {name: data for name, data in (of_directory if os.path.isdir(source) else of_jar)(source) if wanted(name)}
    if not entries:
        sys.exit(f"{source}: there is nothing in it")
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as jar:
        # Readers of streams expect the manifest first.
        for name in sorted(entries, key=lambda name: (name != "META-INF/MANIFEST.MF", name)):
            jar.writestr(zipfile.ZipInfo(name, DATE), entries[name])


if __name__ == "__main__":
    main()
