#!/usr/bin/env python3
"""Checks the machine code of kernels: what their hot paths must hold and must not, and their registers.

sass_check.py --cuobjdump TOOL --rules RULES.tsv [--names PROGRAM] [--architectures 80,90] [--ptx 100] [--only KERNEL] FILE [LOG...]

FILE: a library, fatbin or cubin. LOG: what `ptxas -v` said of it. RULES.tsv: see the head of kernels.tsv. Every kernel needs a rule and
every rule a kernel, for each architecture. PROGRAM prints which kernels there must be (kernel_names.cpp). --only looks at one kernel, and not for rules without one.
The exit code is 0 if everything holds; each thing that does not is a line.
"""

import argparse
import collections
import re
import subprocess
import sys

CODE = re.compile(r"^\s*code for sm_(\w+)")
FUNCTION = re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)(.*?);")
USAGE = re.compile(r"^\s*Function (\S+):\s*$")
REGISTERS = re.compile(r"\bREG:(\d+)")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")

# What a kernel's code may be required to hold.
WANTED = {
    "load128": (re.compile(r"LDG\.E\.128\.STRONG\.SYS$"), "no 128-bit load that other devices' stores are whole for (LDG.E.128.STRONG.SYS)"),
    "store128": (re.compile(r"STG\.E\.128\.STRONG\.SYS$"), "no 128-bit store that other devices see whole (STG.E.128.STRONG.SYS)"),
    "wait": (re.compile(r"ACQBULK$"), "no wait for the launch before (ACQBULK)"),
}
# Where programmatic dependent launch begins: no older architecture has the wait.
PROGRAMMATIC = 90
# What it must not hold unless its rule allows it; in this order.
UNWANTED = {
    "system-fence": (re.compile(r"MEMBAR\b.*\.(SYS|VC)\b"), "a fence for the whole system"),
    "device-fence": (re.compile(r"(MEMBAR|FENCE)\b"), "a fence"),
    "acquire": (re.compile(r"CCTL\b.*IVALL"), "an acquire, which empties the first-level cache"),
    "local": (re.compile(r"(LDL|STL)\b"), "local memory"),
}
# What the loads behind the wait for the launch before must be: so many of them before anything needs the result of one.
BATCH = re.compile(r"batch(\d+)$")
WAIT = WANTED["wait"][0]
# Nothing behind these counts: they end a stretch of code, or have a warp wait.
STRETCH_END = re.compile(r"(BRA|BRX|JMP|EXIT|RET|CALL|BAR|WARPSYNC|SHFL|VOTE)\b")
STORE = re.compile(r"(ST|RED|ATOM)")
REGISTER = re.compile(r"\bR(\d+)\b")
# Spilled registers are local memory too, but only ptxas knows which of it they are.
SPILL_WORD = "spill"

Rule = collections.namedtuple("Rule", "pattern registers must may since")


class Kernel:
    def __init__(self):
        self.instructions = []
        self.registers = None
        self.spilled = 0


def read_rules(path):
    rules = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            pattern, registers, must, may, since = line.rstrip("\n").split("\t")
            must, may = ([] if field == "-" else field.split(",") for field in (must, may))
            unknown = [word for word in must if word not in WANTED and not BATCH.match(word)] + [word for word in may if word not in (*UNWANTED, SPILL_WORD)]
            if unknown:
                sys.exit(f"{path}: unknown: {', '.join(unknown)}")
            rules.append(Rule(pattern, int(registers), must, may, int(since)))
    return rules


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.splitlines()


def read_kernels(tool, file):
    """By (architecture, name)."""
    kernels = collections.defaultdict(Kernel)
    architecture = function = None
    for line in run(tool, "-sass", file):
        if match := CODE.match(line):
            architecture = match.group(1)
        elif match := FUNCTION.match(line):
            function = match.group(1)
            kernels[architecture, function].instructions = []
        elif (match := INSTRUCTION.match(line)) and function is not None:
            kernels[architecture, function].instructions.append((match.group(1), (match.group(1) + match.group(2)).strip()))
    for line in run(tool, "-res-usage", file):
        if match := re.match(r"^\s*arch = sm_(\w+)", line):
            architecture = match.group(1)
        elif match := USAGE.match(line):
            function = match.group(1)
        elif (match := REGISTERS.search(line)) and (architecture, function) in kernels:
            kernels[architecture, function].registers = int(match.group(1))
    return dict(kernels)


def read_spills(logs, kernels):
    for log in logs:
        architecture = entry = None
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                if match := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
                    entry, architecture = match.groups()
                # Those of the functions that the entry calls follow it.
                elif (match := SPILL.search(line)) and (architecture, entry) in kernels:
                    kernels[architecture, entry].spilled += int(match.group(1)) + int(match.group(2))


def batch_behind(instructions):
    """How many loads are issued before an instruction needs the result of one of them."""
    results = set()
    loads = 0
    for operation, text in instructions:
        if STRETCH_END.match(operation):
            break
        operands = text[len(operation):]
        target, _, sources = operands.partition(",")
        if results & {int(number) for number in REGISTER.findall(operands if STORE.match(operation) else sources)}:
            break
        if operation.startswith("LDG"):
            loads += 1
            if register := REGISTER.search(target):
                words = 4 if ".128" in operation else 2 if ".64" in operation else 1
                results.update(range(int(register.group(1)), int(register.group(1)) + words))
    return loads


def largest_batch(kernel):
    waits = [at for at, (operation, _) in enumerate(kernel.instructions) if WAIT.match(operation)]
    return max((batch_behind(kernel.instructions[at + 1 :]) for at in waits), default=0)


def faults(kernel, rule, architecture):
    for word in rule.must:
        if (word == "wait" or BATCH.match(word)) and int(architecture) < PROGRAMMATIC:
            continue
        if match := BATCH.match(word):
            if largest_batch(kernel) < int(match.group(1)):
                yield f"{largest_batch(kernel)} loads in one batch behind the wait, and not {match.group(1)}"
            continue
        pattern, name = WANTED[word]
        if not any(pattern.match(operation) for operation, _ in kernel.instructions):
            yield name
    # An instruction is what the first of these says.
    found = {}
    for operation, text in kernel.instructions:
        word = next((word for word, (pattern, _) in UNWANTED.items() if pattern.match(operation)), None)
        if word is not None:
            found.setdefault(word, []).append(text)
    for word, texts in found.items():
        if word not in rule.may:
            yield f"{UNWANTED[word][1]}, {len(texts)} times: {texts[0]}"
    if kernel.spilled and SPILL_WORD not in rule.may:
        yield f"{kernel.spilled} bytes of registers spilled"
    if kernel.registers is None:
        yield "the tool says nothing of its registers"
    elif kernel.registers > rule.registers:
        yield f"{kernel.registers} registers, of which its rule allows {rule.registers}"


def differences(program, kernels, architectures):
    """Between the kernels that the library loads and those in the file."""
    names = [line.split() for line in run(program)]
    for architecture in architectures:
        loaded = {words[-1] for words in names if len(words) == 1 or int(architecture) >= PROGRAMMATIC}
        held = {name for of, name in kernels if of == architecture}
        yield from (f"{name} for sm_{architecture} is loaded, and not there" for name in sorted(loaded - held))
        yield from (f"{name} for sm_{architecture} is there, and not loaded" for name in sorted(held - loaded))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--rules", required=True)
    parser.add_argument("--names")
    parser.add_argument("--architectures", default="")
    parser.add_argument("--ptx", default="")
    parser.add_argument("--only")
    parser.add_argument("file")
    parser.add_argument("logs", nargs="*")
    options = parser.parse_args()

    rules = read_rules(options.rules)
    kernels = read_kernels(options.cuobjdump, options.file)
    read_spills(options.logs, kernels)
    wrong = []
    wanted = [name for name in options.architectures.split(",") if name]
    there = sorted({architecture for architecture, _ in kernels}, key=int)
    wrong += [f"there is no kernel for sm_{name} in {options.file}" for name in wanted if name not in there]
    if options.ptx:
        ptx = run(options.cuobjdump, "-lptx", options.file)
        wrong += [f"there is no PTX of compute_{name} in {options.file}" for name in options.ptx.split(",")
                  if not any(f".sm_{name}.ptx" in line for line in ptx)]
    if options.names:
        wrong += differences(options.names, kernels, there)
    if not kernels:
        wrong.append(f"there are no kernels in {options.file}")

    used = collections.defaultdict(set)
    names = sorted({name for _, name in kernels})
    if options.only is not None:
        names = [name for name in names if name == options.only]
        if not names:
            wrong.append(f"there is no kernel {options.only} in {options.file}")
    print(f"{'kernel':40} {'sm':>4} {'registers':>9} {'instructions':>12} {'load128':>7} {'store128':>8}")
    for name in names:
        rule = next((rule for rule in rules if re.fullmatch(rule.pattern, name)), None)
        for architecture in there:
            kernel = kernels.get((architecture, name))
            if kernel is None:
                if rule is None or int(architecture) >= rule.since:
                    wrong.append(f"{name} is not there for sm_{architecture}")
                continue
            counts = [sum(1 for operation, _ in kernel.instructions if WANTED[word][0].match(operation)) for word in WANTED]
            print(f"{name:40} {architecture:>4} {kernel.registers or 0:9} {len(kernel.instructions):12} {counts[0]:7} {counts[1]:8}")
            if rule is not None:
                used[rule.pattern].add(name)
                wrong += [f"{name} for sm_{architecture}: {fault}" for fault in faults(kernel, rule, architecture)]
        if rule is None:
            wrong.append(f"{name} has no rule in {options.rules}")
    if options.only is None:
        wrong += [f"{options.rules}: no kernel is called {rule.pattern}" for rule in rules if not used[rule.pattern]]
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{len(names)} kernels for {', '.join('sm_' + name for name in there)}: {len(wrong)} things wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
