"""Results of measurements: lines of JSON. README.md beside this folder says what is in a line."""

import json
import math
from dataclasses import dataclass, field
from statistics import median

# In the order of tables. Every other library is a peer and comes behind them.
OURS = ("c++", "java", "nvrar")
BASELINE_KERNELS = ("c++-apart", "study")
LIBRARIES = ("c++", "c++-apart", "study", "java", "nvrar", "open-mpi", "nccl", "torch-one-shot", "torch-two-shot",
             "torch-reduce-scatter", "torch-low-contention")
# The field of the shape by which the results of a series differ.
SIZE = {"collective": "bytes", "fused": "bytes", "decode": "batch"}
SIZES = {"bytes", "count", "batch"}
# What the shape of a kind of result must have.
CALLS = ("name", "processes", "backend", "mode", "placement", "type", "op", "root", "algorithm", "bytes", "count")
NEEDED = {"collective": CALLS, "fused": CALLS, "group": ("processes", "backend"), "first-token": ("prefill", "prompt_tokens"),
          "decode": ("ranks", "batch", "context", "all_reduce")}


class Problem(Exception):
    """A sentence for the user."""


@dataclass
class Cell:
    """A result: all rounds of one measurement."""

    kind: str
    library: str
    shape: dict
    unit: str
    median: float
    least: float
    most: float
    iterations: int = 1
    repeats: int = 1
    wrong: int = 0
    more: dict = field(default_factory=dict)

    @property
    def size(self):
        return self.shape.get(SIZE.get(self.kind, ""), 0)

    @property
    def name(self):
        return self.shape.get("name", self.kind)

    @property
    def ranks(self):
        return self.shape.get("processes", self.shape.get("ranks", 1))

    @property
    def on_gpu(self):
        return self.shape.get("backend") != "cpu"

    @property
    def is_ours(self):
        return self.library in OURS

    @property
    def is_peer(self):
        return not self.is_ours and self.library not in BASELINE_KERNELS

    @property
    def algbw(self):
        """GB/s of the message; 0 without a time, which may be 0 after another's was subtracted."""
        return self.size / self.median * 1e-3 if self.median > 0 else 0.0

    @property
    def busbw(self):
        return self.algbw * self.bus_factor

    @property
    def bus_factor(self):
        """nccl-tests' factor from algorithm bandwidth to bus bandwidth."""
        part = (self.ranks - 1) / self.ranks
        if self.name == "all-reduce" or self.kind == "fused":
            return 2 * part
        return part if self.name in ("all-gather", "reduce-scatter", "all-to-all") else 1

    def series(self):
        """The key that all sizes of a series share."""
        shape = tuple(sorted((name, value) for name, value in self.shape.items() if name not in SIZES))
        return self.kind, self.library, shape

    def column(self):
        if self.kind == "decode":
            return f"{self.library}, {self.shape['all_reduce']}"
        return f"{self.library} in place" if self.shape.get("placement") == "in" else self.library


@dataclass
class Run:
    """The results of a command: the line about the run, one cell for each measurement, and the failures."""

    about: dict
    cells: list
    failures: list
    lines: list

    @property
    def wrong(self):
        return sum(cell.wrong for cell in self.cells)

    def of(self, *kinds):
        return [cell for cell in self.cells if cell.kind in kinds]


def order(library):
    return LIBRARIES.index(library) if library in LIBRARIES else len(LIBRARIES)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except (FileNotFoundError, IsADirectoryError):
        raise Problem(f"there is no file {path}") from None
    except UnicodeDecodeError:
        lines = ["no text"]
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from None
    try:
        return parse(lines)
    except ValueError as error:
        raise Problem(f"{path} is not a file of --json: {error}") from None


def parse(lines):
    """Raises ValueError with the reason."""
    parsed = []
    for number, line in enumerate(lines, 1):
        try:
            parsed.append(json.loads(line, parse_constant=refuse))
        except ValueError:
            raise ValueError(f"line {number} is no JSON") from None
        if not isinstance(parsed[-1], dict):
            raise ValueError(f"line {number} is no JSON object")
    if not parsed or parsed[0].get("kind") != "run":
        raise ValueError("its first line is not about a run")
    about, rest = printable(parsed[0]), parsed[1:]
    for name in ("machine", "command"):
        if not isinstance(about.get(name), str):
            raise ValueError(f"the line of its run has no {name}")
    cells, failures = {}, []
    for number, line in enumerate(rest, 2):
        line = printable(line)
        if line.get("kind") == "failure":
            failures.append(line)
            continue
        try:
            cell = cell_of(line)
        except ValueError as error:
            raise ValueError(f"line {number} {error}") from None
        cells.setdefault((*cell.series(), cell.size, cell.shape.get("count")), []).append(cell)
    if not cells and not failures:
        raise ValueError("it has no results")
    return Run(about, [merge(rounds) for rounds in cells.values()], failures, [about, *rest])


def refuse(constant):
    raise ValueError(constant)


def printable(value):
    """The value without control characters, because it is printed to a terminal."""
    if isinstance(value, dict):
        return {printable(name): printable(one) for name, one in value.items()}
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() else "?" for letter in value)
    return value


def cell_of(line):
    line = dict(line)
    for name, kind in (("kind", str), ("library", str), ("shape", dict), ("unit", str)):
        if not isinstance(line.get(name), kind):
            raise ValueError(f"has no {name}")
    times = [line.get(name) for name in ("median", "least", "most")]
    # A time is below 0 where more was subtracted than a noisy batch took.
    counts = [line.get(name, 0) for name in ("iterations", "repeats", "wrong")]
    if not all(type(one) in (int, float) and math.isfinite(one) for one in times) or not all(type(one) is int and one >= 0 for one in counts):
        raise ValueError("has a time or a number that cannot be")
    cell = Cell(*(line.pop(name) for name in ("kind", "library", "shape", "unit", "median", "least", "most")))
    for name in ("iterations", "repeats", "wrong"):
        setattr(cell, name, line.pop(name, getattr(cell, name)))
    cell.more = line
    for name in NEEDED.get(cell.kind, ()):
        if name not in cell.shape:
            raise ValueError(f"has no {name} in its shape")
    if not isinstance(cell.size, int) or cell.size < 0 or not isinstance(cell.ranks, int) or cell.ranks < 1:
        raise ValueError("has a time or a number that cannot be")
    if cell.kind == "decode" and cell.median <= 0:
        raise ValueError("has a step without a time")
    return cell


def merge(rounds):
    first = rounds[0]
    more = dict(first.more)
    if "device_bytes" in more:
        more["device_bytes"] = max(cell.more.get("device_bytes") for cell in rounds)
    problems = [cell.more["problem"] for cell in rounds if cell.more.get("problem")]
    if problems:
        more["problem"] = problems[0]
    return Cell(first.kind, first.library, first.shape, first.unit, median(cell.median for cell in rounds),
                min(cell.least for cell in rounds), max(cell.most for cell in rounds), first.iterations,
                sum(cell.repeats for cell in rounds), sum(cell.wrong for cell in rounds), more)
