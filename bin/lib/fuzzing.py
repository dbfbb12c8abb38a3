"""Runs fuzz targets in parallel and writes the results as JUnit XML; for native/fuzz/run and ray-plugin/fuzz/run."""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

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
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--built", action="store_true")
    return parser.parse_args()


def build(commands, directory):
    for command in commands:
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"fuzz: {' '.join(command)} failed:\n{done.stdout}")


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


def verdict(done, least):
    """Returns a sentence, and whether nothing was found."""
    count, rate = tried(done), figure(done, r"average_exec_per_sec:\s+(\d+)")
    if done.returncode == 0 and None not in (count, rate):
        if count < least:
            return f"FAILED: {count} new inputs try nothing, {least} are the least", False
        return f"{count} new inputs, {rate} executions a second: nothing found", True
    return f"FAILED with exit code {done.returncode}", False


def run_all(suite_name, targets, command_of, options):
    """command_of(target, directory for new inputs, limits) returns the command, where limits are options that both libFuzzer
    and Jazzer have. Exits with 0 if nothing was found, else 1."""
    targets = [target for target in targets if options.only in target]
    if not targets:
        sys.exit(f"fuzz: no target's name holds '{options.only}'")
    suite = ElementTree.Element("testsuite", name=suite_name, tests=str(len(targets)))
    with tempfile.TemporaryDirectory(prefix="nvrar-fuzz-") as scratch:

        def run(target):
            name = target.rsplit(".", 1)[-1]
            new = os.path.join(options.keep or scratch, name)
            os.makedirs(new, exist_ok=True)
            kept = len(os.listdir(new))

            def run_for(*limits):
                return subprocess.run(
                    command_of(target, new, limits), cwd=new, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    errors="replace", check=False)

            done = run_for(f"-runs={options.runs}" if options.runs else f"-max_total_time={options.seconds}")
            count = tried(done)
            if not options.runs and done.returncode == 0 and count is not None and count < MIN_EXECUTIONS:
                # What was found is in the corpus of the next run.
                found = len(os.listdir(new)) - kept
                done = run_for(f"-runs={seeds_of(done) + found + MIN_EXECUTIONS}", f"-max_total_time={LONGEST_RETRY_SECONDS}")
            return name, done

        ok = True
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            for name, done in pool.map(run, targets):
                sentence, nothing_found = verdict(done, 0 if options.runs else MIN_EXECUTIONS)
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
