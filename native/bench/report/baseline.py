"""The comparison of a run with an earlier one, cell by cell. Costs of groups and times of 0 are left out."""

from statistics import median

import tables
from results import Problem

COMPARED = ("collective", "fused", "decode")


def check(file, before, run):
    """Checks that the earlier run has the same calls among the same ranks, at any size and in any mode."""
    def calls(cell):
        return cell.kind, [cell.shape.get(name) for name in ("name", "processes", "ranks", "hosts", "links", "backend", "type")]

    if not {str(calls(cell)) for cell in run.of(*COMPARED)} & {str(calls(cell)) for cell in before.cells}:
        of = "; ".join(part.title() for part in tables.parts(before)) or "other kinds of results"
        raise Problem(f"the baseline {file} has nothing of what is measured here: it is of {of}")


class Series:
    """The sizes of one kind, ascending, as (now, before)."""

    def __init__(self, pairs):
        self.pairs, self.any = pairs, pairs[0][0]
        self.median = median(ratio(*pair) for pair in pairs)

    def slower(self, part):
        """
        A clause that says how the series is slower; empty if it is not, or if the library is not ours. A single size counts only if its
        fastest batch took longer than the slowest batch of the earlier run.
        """
        if not self.any.is_ours:
            return ""
        shape = self.any.shape
        how = f", {shape['mode']}" if shape.get("mode", "calls") != "calls" else ""
        how += f", context {shape['context']}" if "context" in shape else ""
        name = f"{self.any.column()}, {self.any.name}, {self.any.ranks} ranks{how}"
        if self.median > 1 + part:
            return f"{name}, by {self.median:.2f} in the median"
        unit = " B" if self.any.kind != "decode" else " sequences"
        alone = [f"{now.size}{unit} ({ratio(now, before):.2f})" for now, before in self.pairs
                 if ratio(now, before) > 1 + part and now.least > before.most]
        return f"{name}, at {', '.join(alone)}" if alone else ""


def ratio(now, before):
    return now.median / before.median


def compare(file, before, run):
    earlier = {(cell.series(), cell.size): cell for cell in before.cells}
    pairs = {}
    for cell in run.of(*COMPARED):
        other = earlier.get((cell.series(), cell.size))
        if other and other.median > 0 and cell.median > 0:
            pairs.setdefault(cell.series(), []).append((cell, other))
    if not pairs:
        raise Problem(f"the baseline {file} has no result at the same size, type and number of ranks as these")
    return [Series(sorted(one, key=lambda pair: pair[0].size)) for one in pairs.values()]


def title(series):
    shape = series.any.shape
    if series.any.kind == "decode":
        return f"decode, {series.any.ranks} ranks, context {shape['context']}"
    return tables.Part([series.any]).title_in(shape["mode"], "ranks")


def report(file, before, compared):
    """Ratios of times, now over then: a table for each table of results, with its medians at the end."""
    lines = ["", f"Times over those of {file}, of {before.about['command']}"]
    by_title = {}
    for series in compared:
        by_title.setdefault(title(series), []).append(series)
    for name, columns in by_title.items():
        size = "batch" if columns[0].any.kind == "decode" else "size (B)"
        table = [[size, *(series.any.column() for series in columns)]]
        of = [{now.size: f"{ratio(now, before):.2f}" for now, before in series.pairs} for series in columns]
        for one in sorted({size for sizes in of for size in sizes}):
            table.append([str(one), *(sizes.get(one, "") for sizes in of)])
        table.append(["median", *(f"{series.median:.2f}" for series in columns)])
        lines += ["", name, *tables.text_lines(table, least=8)]
    return lines
