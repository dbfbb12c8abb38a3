"""
Pictures of results. Each table of collectives has three for each mode: time, bus bandwidth, and speed-up over the fastest peer. Calls in
place on the CPU are not drawn. Each context of decode steps has one picture: time by batch, beside the floor.
"""

import base64
import html
import os
import re
from dataclasses import dataclass

import tables
from results import LIBRARIES, OURS, Problem, order

LEAST_POINTS = 2
WIDTH, HEIGHT, DPI = 760, 420, 100
# The same in every picture.
COLOURS = dict(zip(LIBRARIES, ("#0B5FA5", "#6BAED6", "#7F7F7F", "#E07B00", "#0B5FA5", "#8C2D19", "#4C9A2A", "#9B4FB5", "#D4499B",
                               "#4B3FA0", "#2AA5A0")))
OTHERS = ("#8C2D19", "#9B4FB5", "#D4499B")


@dataclass
class Line:
    """Points are (size, median, least, most), ascending."""

    name: str
    colour: str
    points: list


@dataclass
class Plot:
    name: str
    title: str
    sizes: str
    unit: str
    lines: list


def plots_of(run):
    return [plot for part in tables.parts(run) for plot in of_part(part)] + of_decode(run)


def of_part(part):
    plots = []
    for mode in dict.fromkeys(cell.shape["mode"] for cell in part.cells):
        cells = [cell for cell in part.cells
                 if cell.shape["mode"] == mode and (part.any.on_gpu or cell.shape["placement"] == "out")]
        title = part.title_in(mode) if part.any.on_gpu else part.title()

        def add(what, unit, cells, point, title=title):
            lines = [Line(name, COLOURS.get(name, "#000000"), shown(map(point, (cell for cell in cells if cell.library == name))))
                     for name in sorted({cell.library for cell in cells}, key=order)]
            lines = [line for line in lines if len(line.points) >= LEAST_POINTS]
            if lines:
                name = re.sub("[^a-z0-9]+", "-", f"{title}-{what.split(' over ')[0]}".lower())
                plots.append(Plot(name, f"{title}: {what}", "bytes", unit, lines))

        add("time", "us", cells, lambda cell: (cell.size, cell.median, cell.least, cell.most))
        add("bus bandwidth", "GB/s", cells, bandwidth)
        peers = {}
        for cell in cells:
            if cell.is_peer and cell.median > 0 and cell.median < peers.get(cell.size, (float("inf"),))[0]:
                peers[cell.size] = cell.median, cell.library
        names = list(dict.fromkeys(name for _, (_, name) in sorted(peers.items())))
        over = ", ".join(names) if len(names) == 1 else f"the fastest of {', '.join(names)}"
        add(f"speed-up over {over}", "times as fast", [cell for cell in cells if cell.is_ours and cell.size in peers],
            lambda cell, peers=peers: (cell.size, *(peers[cell.size][0] / us if us else 0 for us in (cell.median, cell.most, cell.least))))
    return plots


def bandwidth(cell):
    return (cell.size, *(cell.size * cell.bus_factor / us * 1e-3 if us else 0 for us in (cell.median, cell.most, cell.least)))


def shown(points):
    """The points that fit on logarithmic axes, ascending."""
    return sorted(point for point in points if min(point) > 0)


def of_decode(run):
    plots, right = [], [cell for cell in run.of("decode") if tables.is_right(cell)]
    for context in dict.fromkeys(cell.shape["context"] for cell in right):
        cells = [cell for cell in right if cell.shape["context"] == context]
        ours, others = [cell for cell in cells if cell.is_ours], [cell for cell in cells if cell.library not in OURS]
        wholly = list(filter(tables.is_wholly_ours, ours))

        def line(name, colour, cells):
            return Line(name, colour, shown((cell.size, cell.median, cell.least, cell.most) for cell in cells))

        lines = [line("nvrar", COLOURS["nvrar"], wholly),
                 line("the same with NCCL", COLOURS["nccl"], [cell for cell in ours if cell.shape["all_reduce"] == "nccl"])]
        for i, whose in enumerate(dict.fromkeys(cell.shape["all_reduce"] for cell in others)):
            lines.append(line(f"PyTorch, {whose}", OTHERS[i % len(OTHERS)], [cell for cell in others if cell.shape["all_reduce"] == whose]))
        lines.append(Line("floor", COLOURS["study"], shown((cell.size, *[cell.more.get("floor", 0)] * 3) for cell in wholly)))
        lines = [one for one in lines if len(one.points) >= LEAST_POINTS]
        if lines:
            ranks = cells[0].ranks
            plots.append(Plot(f"decode-{ranks}-ranks-context-{context}",
                              f"A decode step of {run.about.get('decode', {}).get('model', 'a model')}, {ranks} ranks, context {context}",
                              "batch", "ms", lines))
    return plots


def check(directory):
    """Checks that pictures can be drawn and the directory be written. Makes nothing."""
    there = os.path.abspath(directory)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise Problem(f"--plots: {there} is not a directory")
    if not os.access(there, os.W_OK):
        raise Problem(f"--plots: {there} cannot be written")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise Problem(f"--plots: this Python cannot draw ({error}); take --json here, and elsewhere the same command with --from FILE "
                      "--plots DIR") from None


def write(directory, run):
    """A PNG and an SVG file for each picture; of collectives also a page of all, with the tables, that needs no other file."""
    os.makedirs(directory, exist_ok=True)
    drawn = []
    for plot in plots_of(run):
        path = os.path.join(directory, plot.name)
        draw(plot, path)
        with open(path + ".svg", "rb") as file:
            drawn.append((plot.title, base64.b64encode(file.read()).decode()))
    if run.of("collective", "fused"):
        with open(os.path.join(directory, "index.html"), "w", encoding="utf-8") as file:
            file.write(page(run, drawn))


def draw(plot, path):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    matplotlib.rcParams.update({"svg.hashsalt": "nvrar", "font.size": 8})
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, layout="constrained")
    axes = figure.add_subplot(title=plot.title, xlabel=plot.sizes, ylabel=plot.unit)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for line in plot.lines:
        sizes, medians, least, most = zip(*line.points)
        axes.plot(sizes, medians, marker="o", markersize=4, color=line.colour, label=line.name)
        axes.fill_between(sizes, least, most, color=line.colour, alpha=0.2, linewidth=0)
    if plot.unit.startswith("times"):
        axes.axhline(1, color="black", linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(size)))
    # Axes of one or two decades need ticks between powers of 10.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="#E6E6E6")
    figure.legend(loc="outside right upper", frameon=False)
    about = f"{plot.title}: {', '.join(line.name for line in plot.lines)}"
    figure.savefig(path + ".png")
    figure.savefig(path + ".svg", metadata={"Date": None, "Description": about})


def size_text(size):
    if size < 1 or size != int(size):
        return ""
    for unit in ("", "K", "M"):
        if size < 1024:
            return f"{size:g}{unit}"
        size /= 1024
    return f"{size:g}G"


def page(run, drawn):
    escaped = html.escape
    pictures = "\n".join(f'<img width="{WIDTH}" height="{HEIGHT}" alt="{escaped(title)}" src="data:image/svg+xml;base64,{image}">'
                         for title, image in drawn)
    legend = ("Lines are medians; bands reach from the fastest to the slowest batch." if drawn
              else "There are no pictures, because nothing was measured at two sizes or more.")
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>nvrar bench</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
img {{ max-width: 100%; height: auto; }}
pre {{ overflow-x: auto; }}
</style>
<h1>nvrar bench</h1>
<p>On {escaped(run.about["machine"])}, by</p>
<pre>{escaped(run.about["command"])}</pre>
<p>{legend}</p>
{pictures}
<pre>{escaped(chr(10).join(tables.report(run)))}</pre>
</html>
"""
