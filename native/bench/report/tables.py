"""Tables of results and sentences about them, as text and as Markdown."""

from statistics import median

from results import OURS, order

# Up to SMALL the cost of a call dominates. From LEVEL_LEAST to LEVEL_MOST the target is Open MPI's time.
SMALL, LEVEL_LEAST, LEVEL_MOST = 1 << 10, 1 << 10, 1 << 20
MODES = ("graph", "eager", "graph-compute", "eager-compute", "graph-cold")


class Part:
    """The cells of one collective and one number of ranks."""

    def __init__(self, cells):
        self.cells, self.any = cells, cells[0]
        self.sizes = sorted({cell.size for cell in cells})

    def title(self, ranks=None):
        shape, count = self.any.shape, self.any.ranks
        ranks = ranks or ("ranks" if self.any.on_gpu else "process" if count == 1 else "processes")
        op = "" if shape["op"] == "none" else f" {shape['op']}"
        hosts = f" on {shape['hosts']} hosts" if "hosts" in shape else ""
        nodes = f" in nodes of {shape['ranks_per_node']}" if shape.get("ranks_per_node") else ""
        links = f" linked by {shape['links']} threads" if "links" in shape else ""
        return f"{self.any.name}, {shape['type']}{op}, {count} {ranks}{hosts}{nodes}{links}"

    def title_in(self, mode, ranks=None):
        return f"{self.title(ranks)}, {mode.replace('-', ' ')}"

    def find(self, library, size, mode="calls", placement="out"):
        """A GPU has one placement of each call, which for NCCL is in place."""
        for cell in self.cells:
            if (cell.library, cell.size, cell.shape["mode"]) == (library, size, mode) and (
                    self.any.on_gpu or cell.shape["placement"] == placement):
                return cell
        return None

    def time(self, *place, **placement):
        cell = self.find(*place, **placement)
        return cell and cell.median

    def compared(self, compare, one, other, mode="calls", ratio=True):
        """Compares two libraries at every size that both have. Ratios skip times of 0."""
        values = {}
        for size in self.sizes:
            ours, theirs = self.time(one, size, mode), self.time(other, size, mode)
            if ours is not None and theirs is not None and (not ratio or (ours > 0 and theirs > 0)):
                values[size] = compare(ours, theirs)
        return values

    def libraries(self, mode):
        return sorted({cell.library for cell in self.cells if cell.shape["mode"] == mode}, key=order)


def parts(run):
    found = {}
    for cell in run.of("collective", "fused"):
        found.setdefault((cell.name, cell.ranks), []).append(cell)
    return [Part(cells) for cells in found.values()]


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def text_lines(table, gap=2, least=0):
    """A table, whose first row is its head, in columns."""
    widths = [max(least, *(len(row[i]) for row in table)) for i in range(len(table[0]))]
    return [(" " * gap).join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in table]


def markdown_lines(table):
    rows = ["| " + " | ".join(row) + " |" for row in table]
    return [rows[0], "|" + "---:|" * len(table[0]), *rows[1:], ""]


def report(run, markdown=False):
    """The lines of all tables and sentences."""
    if run.of("decode", "first-token") or run.failures:
        return decode_report(run, markdown)
    lines = []
    for part in parts(run):
        if part.any.on_gpu:
            for mode in MODES:
                if part.libraries(mode):
                    title, table = part.title_in(mode), gpu_table(part, mode)
                    lines += ([f"### {title}", "", *markdown_lines(table)] if markdown
                              else ["", title, *text_lines(table, least=8)])
            sentences = gpu_sentences(part) + group_sentences(run, part)
        else:
            lines += (["### " + part.title(), "", *markdown_lines(cpu_table(part))] if markdown
                      else ["", part.title(), *cpu_text(part)])
            sentences = cpu_sentences(part)
        lines += [*(f"- {one}" for one in sentences), ""] if markdown else sentences
    return lines


def gpu_table(part, mode):
    libraries = part.libraries(mode)
    table = [["size (B)", *(f"{name} us" for name in libraries), "c++ algbw GB/s", "c++ busbw GB/s", "#wrong"]]
    for size in part.sizes:
        cells = [part.find(name, size, mode) for name in libraries]
        ours = part.find("c++", size, mode)
        table.append([str(size), *(number(cell and cell.median) for cell in cells), number(ours and ours.algbw),
                      number(ours and ours.busbw), str(sum(cell.wrong for cell in cells if cell))])
    return table


def cpu_table(part):
    table = [["size (B)", "C++ us", "Java us", "Open MPI us", "C++ / Open MPI", "Java - C++ us", "C++ in place us",
              "C++ algbw GB/s", "C++ busbw GB/s", "#wrong"]]
    over_mpi = part.compared(lambda ours, mpi: ours / mpi, "c++", "open-mpi")
    more = part.compared(lambda java, ours: java - ours, "java", "c++", ratio=False)
    for size in part.sizes:
        ours = part.find("c++", size)
        table.append([
            str(size), *(number(part.time(name, size)) for name in ("c++", "java", "open-mpi")),
            number(over_mpi.get(size)), number(more.get(size)), number(part.time("c++", size, placement="in")),
            number(ours and ours.algbw), number(ours and ours.busbw),
            str(sum(cell.wrong for cell in part.cells if cell.size == size))])
    return table


def cpu_text(part):
    """nccl-tests' columns, with the ratio to Open MPI at the end."""
    columns, times = "%10s %10s %9s %8s %4s %9s | %s | %s | %8s", "%10s %7s %7s %6s"
    lines = [
        columns % ("size", "count", "type", "redop", "root", "from", times % ("out of place", "algbw", "busbw", "#wrong"),
                   times % ("in place", "algbw", "busbw", "#wrong"), "time /"),
        columns % ("(B)", "(elements)", "", "", "", "", *[times % ("time (us)", "(GB/s)", "(GB/s)", "")] * 2, "open-mpi")]

    def of(cell):
        return times % ((number(cell.median), number(cell.algbw, 3), number(cell.busbw, 3), cell.wrong) if cell else ("-",) * 4)

    for size in part.sizes:
        for library in part.libraries("calls"):
            cell, shape = part.find(library, size), part.any.shape
            if cell:
                ratio = part.compared(lambda one, mpi: one / mpi, library, "open-mpi").get(size)
                lines.append(columns % (
                    size, cell.shape["count"], shape["type"], shape["op"], shape["root"], library, of(cell),
                    of(part.find(library, size, placement="in")), number(ratio) or "-"))
    return [line.rstrip() for line in lines]


def targets(values, text, limit, beyond, digits=2):
    """A sentence with the range of the values and the sizes that miss the target. No values, no sentence."""
    if not values:
        return []
    missed = ", ".join(f"{size} B ({value:.2f})" for size, value in values.items() if beyond(size, value))
    least, most = number(min(values.values()), digits), number(max(values.values()), digits)
    return [text.format(least, most) + f"; the target, {limit}, is " + (f"missed at {missed}." if missed else "met at every size.")]


def cpu_sentences(part):
    sentences = []
    ratios = part.compared(lambda ours, mpi: ours / mpi, "c++", "open-mpi")
    for name, least, most, limit in (("1 KiB to 1 MiB", LEVEL_LEAST, LEVEL_MOST, 1), ("all sizes", 0, 1 << 62, 1.5)):
        sentences += targets(
            {size: ratio for size, ratio in ratios.items() if least <= size <= most},
            f"C++ against Open MPI, {name}: {{}} to {{}} times its time", f"at most {limit:.2f}",
            lambda _, ratio, limit=limit: round(ratio, 2) > limit)
    more = part.compared(lambda java, ours: java - ours, "java", "c++", ratio=False)
    more = {size: us for size, us in more.items() if size <= SMALL}
    if more:
        sentences += targets(
            more, f"From Java a call takes {median(more.values()):.2f} us more than from C++ (median of the sizes up to 1 KiB)",
            "at most 1.00 us", lambda _, us: round(us, 2) > 1)
    return sentences


def gpu_sentences(part):
    sentences = []
    for mode in ("graph", "graph-compute"):
        behind = part.compared(lambda ours, theirs: ours - theirs, "c++", "study", mode, ratio=False)
        sentences += targets(
            behind, f"C++ against the baseline kernels, {mode}: {{}} to {{}} us behind", "at most 0.40 us or 10 %",
            lambda size, us, mode=mode: us > max(0.4, part.time("study", size, mode) * 0.1))
    sentences += targets(
        part.compared(lambda ours, apart: apart - ours, "c++", "c++-apart", "graph", ratio=False),
        "A fused all-reduce in a graph saves {} to {} us of one with a kernel behind it", "at least 0.00 us",
        lambda _, us: us < 0)
    sentences += targets(
        part.compared(lambda java, ours: 100 * (java / ours - 1), "java", "c++", "graph"),
        "From Java a call in a graph takes {} to {} % more than from C++", "at most 3 %", lambda _, percent: percent > 3, 1)
    sentences += targets(
        part.compared(lambda java, ours: java - ours, "java", "c++", "eager", ratio=False),
        "From Java an eager call takes {} to {} us more than from C++", "at most 2.50 us", lambda _, us: us > 2.5)
    return sentences + targets(
        part.compared(lambda ours, nccl: ours / nccl, "c++", "nccl", "graph"),
        "C++ against NCCL in a graph: {} to {} times its time", "at most 1.00", lambda _, ratio: ratio > 1)


def group_sentences(run, part):
    return [f"A group of {cell.ranks} from {cell.library} is made in {cell.median / 1e6:.2f} s and takes "
            f"{cell.more['device_bytes'] / (1 << 20):.1f} MiB of a GPU's memory."
            for cell in run.of("group") if cell.ranks == part.any.ranks]


def decode_report(run, markdown):
    sentences, tables = decode_sentences(run), decode_tables(run)
    if markdown:
        return [" ".join(sentences), "", *(line for table in tables for line in markdown_lines(table))]
    return [*sentences, *(line for table in tables for line in ["", *text_lines(table)])]


def is_wholly_ours(cell):
    return cell.is_ours and cell.shape["all_reduce"] == "nvrar"


def is_right(cell):
    return not cell.more.get("problem")


def decode_tables(run):
    tables, firsts = [], run.of("first-token")
    if len(firsts) > 1:
        tables.append([["prompt", "prefill", "ms to the first token"], *(
            [str(cell.shape["prompt_tokens"]), cell.shape["prefill"], number(cell.median, 1)] for cell in firsts)])
    table = [["step of", "all-reduce", "batch", "context", "ms/step", "least", "most", "tokens/s", "floor ms", "% of floor",
              "ms without", "all-reduces %", "tokens"]]
    for cell in run.of("decode"):
        step = derived(cell)
        table.append([
            cell.library, cell.shape["all_reduce"], str(cell.size), str(cell.shape["context"]),
            *(number(value, 3) for value in (cell.median, cell.least, cell.most)), number(step["tokens_per_second"], 1),
            number(step["floor_millis"], 3), number(step["percent_of_floor"], 1), number(step["without_millis"], 3) or "-",
            number(step["all_reduce_percent"], 1) or "-", "ok" if is_right(cell) else "WRONG"])
    return [*tables, table]


def derived(cell):
    """The derived columns of a decode step, named as in the CSV file."""
    floor, without = cell.more.get("floor", 0), cell.more.get("without")
    return {
        "tokens_per_second": cell.size * 1e3 / cell.median, "floor_millis": floor,
        "percent_of_floor": 100 * floor / cell.median, "without_millis": without,
        "all_reduce_percent": None if without is None else 100 * (cell.median - without) / cell.median}


def decode_sentences(run):
    about = run.about.get("decode", {})
    sentences = []
    if about:
        ranks, gigabytes, seconds = about["ranks"], about["weight_bytes"] / 1e9, about["load_seconds"]
        sentences = [
            f"{about['model']} on {ranks} GPU{'' if ranks == 1 else 's'} {run.about['machine']}, by the {about['kernels']} "
            f"kernels: {gigabytes:.2f} GB loaded in {seconds:.1f} s, {gigabytes / seconds:.2f} GB/s.",
            f"The floor is that of {about['bandwidth'] / 1e12:.2f} TB/s, "
            + ("which the slowest GPU reads by a kernel that does nothing else." if about["is_bandwidth_measured"] else "as was said.")]
    firsts, cells = run.of("first-token"), run.of("decode")
    if len(firsts) == 1:
        prompt, prefill = firsts[0].shape["prompt_tokens"], firsts[0].shape["prefill"]
        sentences.append(f"The first token of a prompt of {prompt} comes after {firsts[0].median:.1f} ms (prefill: {prefill}).")
    for ours in filter(is_wholly_ours, cells):
        beside = [cell for cell in cells if is_right(cell) and (cell.size, cell.shape["context"]) == (ours.size, ours.shape["context"])]
        where = f"At batch {ours.size} and context {ours.shape['context']} a step takes"
        sentences += [f"{where} {ours.median / cell.median:.2f} of the same with NCCL's all-reduces."
                      for cell in beside if cell.is_ours and cell.shape["all_reduce"] == "nccl"]
        others = [cell for cell in beside if cell.library not in OURS]
        if others:
            best = min(others, key=lambda cell: cell.median)
            sentences.append(f"{where} {ours.median / best.median:.2f} of the fastest of {best.library}, that with {best.shape['all_reduce']}.")
    return sentences + [failure_sentence(one) for one in run.failures]


def failure_sentence(failure):
    shape, problem = failure["shape"], failure["problem"].rstrip(".")
    return f"At batch {shape['batch']} and context {shape['context']} {failure['library']} was not measured: {problem}."


def problem(run):
    """A sentence that names a wrong or missing result; empty if there is none."""
    if run.failures:
        return failure_sentence(run.failures[0])
    for cell in run.of("decode"):
        if cell.is_ours and not is_right(cell):
            how = {"nvrar": "", "nccl": " with NCCL's all-reduces"}.get(cell.shape["all_reduce"], " drawing")
            return f"At batch {cell.size} and context {cell.shape['context']}{how} {cell.more['problem']}."
    return f"{run.wrong} elements of the results were wrong; the column #wrong says where" if run.wrong else ""
