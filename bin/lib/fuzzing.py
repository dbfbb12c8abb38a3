"""Runs fuzz targets in parallel and writes the results as JUnit XML; for native/fuzz/run and ray-plugin/fuzz/run.

The corpus of a target is CORPUS/TARGET_seed_corpus.zip, and the files of CORPUS/TARGET, which once broke a property.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile

# A target that has executed almost nothing but its corpus has tested nothing. A busy machine may take longer for that than
# the time given.
MIN_EXECUTIONS = 100
LONGEST_RETRY_SECONDS = 120
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


def arguments(description):
    # bin/nvrar test ends this by SIGTERM, and temporary directories are to go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("junit", nargs="?")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=os.path.abspath)  # the targets run in other directories
    parser.add_argument("--merge", type=os.path.abspath)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--built", action="store_true")
    return parser.parse_args()


def build(commands, directory):
    for command in commands:
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"fuzz: {' '.join(command)} failed:\n{done.stdout}")


def short(target):
    return target.rsplit(".", 1)[-1]


def archive(corpus, target):
    """The name is OSS-Fuzz's convention."""
    return os.path.join(corpus, f"{short(target)}_seed_corpus.zip")


def pack(directory, path):
    """Equal files give equal bytes on every machine: names are sorted, times left out, and no zlib compresses."""
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_STORED) as packed:
        for name in sorted(os.listdir(directory)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            with open(os.path.join(directory, name), "rb") as file:
                packed.writestr(entry, file.read())
    os.replace(path + ".new", path)


def unpack(corpus, target, scratch):
    """Returns the directory with the seeds; a new target has none."""
    directory = os.path.join(scratch, "seeds", short(target))
    os.makedirs(directory)
    if os.path.exists(archive(corpus, target)):
        with zipfile.ZipFile(archive(corpus, target)) as packed:
            packed.extractall(directory)
    return directory


def execute(command, directory):
    return subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


def figure(done, pattern):
    found = re.search(pattern, done.stdout)
    return int(found.group(1)) if found else None


def tried(done):
    """How many inputs were executed that are not in the corpus; None if the target does not say so."""
    count, seeds = figure(done, r"number_of_executed_units: (\d+)"), seeds_of(done)
    return None if None in (count, seeds) else max(0, count - seeds)


def seeds_of(done):
    files = figure(done, r"seed corpus: files: (\d+)")
    return None if files is None else files + 1  # libFuzzer begins with the empty input


def verdict(done, options, inputs):
    """Returns a sentence, and whether nothing was found."""
    count, rate = tried(done), figure(done, r"average_exec_per_sec:\s+(\d+)")
    if done.returncode != 0 or None in (count, rate):
        return f"FAILED with exit code {done.returncode}", False
    if options.runs == 0:
        executed = figure(done, r"number_of_executed_units: (\d+)") - 1  # without the empty input
        if executed < max(1, inputs):
            return f"FAILED: {executed} of {inputs} inputs of the corpus were executed", False
        return f"{executed} inputs of the corpus: nothing found", True
    if options.runs is None and count < MIN_EXECUTIONS:
        return f"FAILED: {count} new inputs try nothing, {MIN_EXECUTIONS} are the least", False
    return f"{count} new inputs, {rate} executions a second: nothing found", True


def run_all(suite_name, corpus, targets, command_of, options):
    """command_of(target, directories of inputs, limits) returns the command, where limits are options that both libFuzzer and
    Jazzer have. Both write new inputs to the first directory. Exits with 0 if nothing was found, else 1."""
    targets = [target for target in targets if options.only in target]
    if not targets:
        sys.exit(f"fuzz: no target's name holds '{options.only}'")
    if options.merge:
        merge_all(corpus, targets, command_of, options)
        return
    suite = ElementTree.Element("testsuite", name=suite_name, tests=str(len(targets)))
    with tempfile.TemporaryDirectory(prefix="nvrar-fuzz-") as scratch:

        def run(target):
            name = short(target)
            new = os.path.join(options.keep or os.path.join(scratch, "new"), name)
            os.makedirs(new, exist_ok=True)
            found = os.path.join(corpus, name)
            inputs = [unpack(corpus, target, scratch), *([found] if os.path.isdir(found) else [])]
            kept = len(os.listdir(new))

            def run_for(*limits):
                return execute(command_of(target, [new, *inputs], limits), new)

            done = run_for(f"-max_total_time={options.seconds}" if options.runs is None else f"-runs={options.runs}")
            count = tried(done)
            if options.runs is None and done.returncode == 0 and count is not None and count < MIN_EXECUTIONS:
                # What was kept is in the corpus of the next run.
                more = len(os.listdir(new)) - kept
                done = run_for(f"-runs={seeds_of(done) + more + MIN_EXECUTIONS}", f"-max_total_time={LONGEST_RETRY_SECONDS}")
            return name, *verdict(done, options, sum(len(os.listdir(directory)) for directory in inputs)), done

        ok = True
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            for name, sentence, nothing_found, done in pool.map(run, targets):
                case = ElementTree.SubElement(suite, "testcase", classname=suite_name, name=name)
                if not nothing_found:
                    ok = False
                    ElementTree.SubElement(case, "failure", message=sentence).text = NOT_IN_XML.sub("?", done.stdout[-4000:])
                    print(done.stdout[-4000:])
                ElementTree.SubElement(case, "system-out").text = sentence
                print(f"{name:20}  {sentence}", flush=True)
    if options.junit:
        ElementTree.ElementTree(suite).write(options.junit, encoding="unicode", xml_declaration=True)
    sys.exit(0 if ok else 1)


def merge_all(corpus, targets, command_of, options):
    """Replaces the seeds of each target that has a directory in options.merge."""
    merged = [target for target in targets if os.path.isdir(os.path.join(options.merge, short(target)))]
    if not merged:
        sys.exit(f"fuzz: {options.merge} has no directory of a target")
    with tempfile.TemporaryDirectory(prefix="nvrar-fuzz-") as scratch:
        for target in merged:
            name = short(target)
            seeds = unpack(corpus, target, scratch)
            fewest = os.path.join(scratch, "fewest", name)
            os.makedirs(fewest)
            done = execute(command_of(target, [fewest, seeds, os.path.join(options.merge, name)], ["-merge=1"]), scratch)
            if done.returncode != 0 or not os.listdir(fewest):
                sys.exit(f"{done.stdout[-4000:]}\nfuzz: the seeds of {name} stay, for their merge failed with exit code {done.returncode}")
            pack(fewest, archive(corpus, target))
            print(f"{name:20}  {len(os.listdir(fewest))} seeds, before {len(os.listdir(seeds))}", flush=True)
