"""Counts test results: reads the JUnit XML files of the steps and prints the table at the end of `bin/nvrar test`.

Standard input: one step per line, tab-separated: name, exit code, seconds, directory of its XML files, and how it counts
(test-steps). In CI a strict step fails if it skips a test.
Exit code: 0 if nothing failed.
"""

import glob
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", re.MULTILINE)
# How the first error in a native program's output is found, and how many lines of it are printed.
WRONG = re.compile(r": Failure$|^==\d+==ERROR: |^WARNING: ThreadSanitizer|: runtime error: ", re.MULTILINE)
WRONG_LINES = 8
NO_REASON = "no reason given"
SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+)$", re.MULTILINE)


@dataclass
class Step:
    name: str
    code: int
    seconds: int
    strict: bool
    check: bool
    passed: int = 0
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)

    def read(self, directory):
        for path in sorted(glob.glob(os.path.join(directory, "*.xml"))):
            try:
                cases = list(ElementTree.parse(path).getroot().iter("testcase"))
            except ElementTree.ParseError as error:
                self.failed.append((os.path.basename(path), f"not readable: {error}"))
                continue
            for case in cases:
                self.add(case)
        if self.check and self.code == 0:
            self.passed += 1
        if self.code != 0 and not self.failed:
            self.failed.append(("the step itself", f"exit code {self.code}, see its log"))
        if self.code == 0 and not (self.passed or self.failed or self.skipped):
            self.failed.append(("the step itself", "it ran no test"))
        if self.strict and self.skipped:
            self.failed.append(("the step itself", "tests were skipped that must run here"))

    def add(self, case):
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        bad = next((case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None)
        skip = case.find("skipped")
        # CTest reports "notrun" or "disabled" in an attribute. It does not count the tests within GoogleTest's
        # programs; their output does.
        if bad is not None or case.get("status") == "fail":
            # What CTest says of a negative control is that it did not fail as it must, which its output does not say.
            more = what_failed(case.findtext("system-out") or "") if case.get("status") == "fail" else ""
            why = reason(bad)
            self.failed.append((name, more if more and why == NO_REASON else "\n    ".join(part for part in (why, more) if part)))
        elif skip is not None or case.get("status") in ("notrun", "disabled"):
            self.skipped.append((name, reason(skip)))
        else:
            self.add_passed(case.findtext("system-out") or "")

    def add_passed(self, output):
        passed = PASSED.search(output)
        # A negative control passes if its test fails, and counts as one test.
        if passed is None or FAILED.search(output):
            self.passed += 1
        else:
            self.passed += int(passed.group(1))
            self.skipped += [(name, "it says why in the step's log") for name in SKIPPED.findall(output)]


def what_failed(output):
    """The failed tests of a native program and the first lines of the reason; "" if its output has none."""
    lines = []
    names = sorted(set(FAILED.findall(output)))
    wrong = WRONG.search(output)
    if wrong:
        begin = output.rfind("\n", 0, wrong.start()) + 1
        lines = [f"    {line}" for line in output[begin:].splitlines()[:WRONG_LINES]]
    return "\n".join(([", ".join(names)] if names else []) + lines)


def reason(element):
    text = "" if element is None else (element.get("message") or element.text or "")
    lines = text.strip().splitlines()
    return lines[0] if lines else NO_REASON


def main():
    steps = []
    for line in sys.stdin.read().splitlines():
        name, code, seconds, directory, counts = line.split("\t")
        step = Step(name, int(code), int(seconds), counts == "strict" and os.environ.get("CI") == "true", counts == "check")
        step.read(directory)
        steps.append(step)

    width = max([len(step.name) for step in steps], default=4)
    print(f"{'step':{width}}  passed  failed  skipped  seconds")
    for step in steps:
        print(f"{step.name:{width}}  {step.passed:6}  {len(step.failed):6}  {len(step.skipped):7}  {step.seconds:7}")
    for step in steps:
        for name, why in step.failed:
            print(f"failed   {step.name}: {name}: {why}")
        for name, why in step.skipped:
            print(f"skipped  {step.name}: {name}: {why}")
    passed, failed, skipped = (
        sum(step.passed for step in steps), sum(len(step.failed) for step in steps), sum(len(step.skipped) for step in steps))
    left_out = os.environ.get("NVRAR_LEFT_OUT", "").strip()
    if left_out:
        print(left_out)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not steps else 0)


if __name__ == "__main__":
    main()
