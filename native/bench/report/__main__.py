"""
The report of measurements: prints tables of a file of results, and writes files, pictures and pages of them.

It needs Python 3.9, and matplotlib for --plots only. README.md beside its folder says what is in a file of results. With --check the
results are of what will be measured, with the shape that is known before; nothing is printed and written.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

import baseline
import plots
import tables
from results import Problem, parse, read

# Exit codes: something is wrong or was not measured; ours have become slower. 1: the report failed.
WRONG, SLOWER = 3, 4

# The lines of a page between which results stand.
MARKS = {
    "cpu": ("<!-- results: written by bin/nvrar bench --document -->", "<!-- end of results -->"),
    "hosts": ("<!-- hosts results: written by bin/nvrar bench --hosts N --document -->", "<!-- end of hosts results -->"),
    "cuda": ("<!-- gpu results: written by bin/nvrar bench --backend cuda --document -->", "<!-- end of gpu results -->"),
    "fused": ("<!-- fused results: written by bin/nvrar bench --backend cuda --fused --document -->", "<!-- end of fused results -->"),
    "decode": ("<!-- decode results: written by bin/nvrar decode-bench --document -->", "<!-- end of decode results -->"),
}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="only look whether the files can be written, and the baseline is of the same")
    parser.add_argument("--quiet", action="store_true", help="only write the files")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--json", metavar="FILE", help="the lines themselves")
    parser.add_argument("--plots", metavar="DIR")
    parser.add_argument("--document", metavar="FILE", help="Markdown, between two marks")
    parser.add_argument("--baseline", metavar="FILE", help="an earlier run; the exit code is 4 if ours have become slower")
    parser.add_argument("--slower", metavar="PART", type=float, default=0.1, help="by which part (default: 0.1)")
    parser.add_argument("file", metavar="FILE", help="of results; -: standard input")
    return parser.parse_args()


def place(run):
    """The name of the marks between which its results stand."""
    cells = run.of("fused", "collective")
    if not cells:
        return "decode"
    return "fused" if cells[0].kind == "fused" else "cuda" if cells[0].on_gpu else "hosts" if "hosts" in cells[0].shape else "cpu"


def replaced(page, kind, text):
    """The page with the text in its place."""
    begin, end = MARKS[kind]
    try:
        with open(page, encoding="utf-8") as file:
            before = file.read()
    except OSError as error:
        raise Problem(f"{page} cannot be read: {error.strerror}") from None
    at = before.find(begin) + len(begin)
    to = before.find(end, at)
    if begin not in before or to < 0:
        raise Problem(f"{page} has no place for the results: it needs the lines '{begin}' and '{end}'")
    return before[:at] + "\n" + text + before[to:]


def check_file(option, file):
    directory = os.path.dirname(os.path.abspath(file))
    if os.path.isdir(file):
        raise Problem(f"{option}: {file} is a directory")
    if not os.path.isdir(directory):
        raise Problem(f"{option}: there is no directory {directory}")
    if not os.access(file if os.path.exists(file) else directory, os.W_OK):
        raise Problem(f"{option}: {file} cannot be written")


def write_file(file, text):
    """All of it or nothing."""
    new = None
    try:
        descriptor, new = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(file)))
        with open(descriptor, "w", encoding="utf-8", newline="") as out:
            out.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, 0o666 & ~mask)
        os.replace(new, file)
    except OSError as error:
        if new is not None and os.path.exists(new):
            os.remove(new)
        raise Problem(f"{file} cannot be written: {error.strerror}") from None


def rows(run):
    for cell in run.of("decode"):
        step = tables.derived(cell)
        yield {
            "implementation": cell.library, "all_reduce": cell.shape["all_reduce"], "ranks": cell.ranks, "batch": cell.size,
            "context": cell.shape["context"], "millis": cell.median, "least_millis": cell.least, "most_millis": cell.most,
            **step, "problem": cell.more.get("problem", "")}
    for cell in run.of("group", "collective", "fused"):
        shape, group = cell.shape, cell.kind == "group"
        yield {
            "implementation": cell.library, "collective": cell.name, "processes": cell.ranks,
            "bytes": cell.more["device_bytes"] if group else cell.size, "count": shape.get("count", 0),
            **{name: shape.get(name, "none") for name in ("type", "op")}, "root": shape.get("root", -1),
            "algorithm": shape.get("algorithm", "none"), "placement": shape.get("placement", "out"),
            "time_us": f"{cell.median:.4f}", "algbw_gbps": f"{cell.algbw:.4f}", "busbw_gbps": f"{cell.busbw:.4f}",
            "wrong": cell.wrong, "time_min_us": f"{cell.least:.4f}", "time_max_us": f"{cell.most:.4f}",
            "iterations": cell.iterations, "repeats": cell.repeats, "backend": shape["backend"],
            "mode": "create" if group else shape["mode"], "hosts": shape.get("hosts", 1)}


def write_csv(file, run):
    table = list(rows(run))
    out = io.StringIO()
    writer = csv.DictWriter(out, table[0].keys() if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_file(file, out.getvalue())


def commit():
    """Of the sources; empty where there is no history."""
    try:
        return subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short=8", "HEAD"],
                              capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def markdown(run):
    by = "By" if run.of("decode", "first-token") or run.failures else f"On {run.about['machine']}, by"
    return "\n".join([by, "", "```", run.about["command"], "```", "", *tables.report(run, markdown=True)]) + "\n"


def check(options, run):
    """Before a measurement, because that takes minutes. Behind it nothing must keep the results from being printed."""
    for option, file in (("--csv", options.csv), ("--json", options.json)):
        if file:
            check_file(option, file)
    if options.document:
        replaced(options.document, place(run), "")
    if options.plots:
        plots.check(options.plots)
    if options.baseline and options.check:
        baseline.check(options.baseline, read(options.baseline), run)


def read_input(file):
    if file != "-":
        return read(file)
    try:
        return parse(sys.stdin.readlines())
    except ValueError as error:
        raise Problem(f"the results cannot be read: {error}") from None


def main():
    options = parsed()
    run = read_input(options.file)
    if options.check or options.file != "-":
        check(options, run)
    if options.check:
        return 0
    if options.file == "-":
        run.about.setdefault("commit", commit())
    if not options.quiet:
        if "decode" not in run.about:
            print(run.about["machine"])
        print("\n".join(tables.report(run)))
    if options.json:
        write_file(options.json, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in run.lines))
    before = read(options.baseline) if options.baseline else None
    if options.csv:
        write_csv(options.csv, run)
    if options.document:
        write_file(options.document, replaced(options.document, place(run), markdown(run)))
    if options.plots:
        plots.write(options.plots, run)
    slower = []
    if before:
        compared = baseline.compare(options.baseline, before, run)
        print("\n".join(baseline.report(options.baseline, before, compared)))
        slower = list(filter(None, (series.slower(options.slower) for series in compared)))
    if tables.problem(run) and not options.quiet:
        print(tables.problem(run), file=sys.stderr)
        return WRONG
    if before and before.about["machine"] != run.about["machine"]:
        print(f"the baseline was measured on {before.about['machine']}", file=sys.stderr)
    if slower:
        print(f"slower than the baseline by more than {options.slower:g}: {'; '.join(slower)}", file=sys.stderr)
        return SLOWER
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(str(problem))
