"""What peers_bench.py measures, with the arithmetic of nvrar_bench and without PyTorch: collectives, sizes, numbers of calls."""

from dataclasses import dataclass

FORMS = ("rms-norm", "rms-fold", "residual", "bias")
ITERATIONS = 40
LEAST_ITERATIONS = 5
BATCH_BYTES = ITERATIONS * (8 << 20)
# Each rank reads all ranks' data, so that larger messages take very long.
MOST_ONE_SHOT_BYTES = 8 << 20

# No operation of PyTorch with NVLink multicast (multimem_...). Of what remains it has one all-gather and two reduce-scatters.
CONTESTANTS = {
    "all-reduce": ("nccl", "torch-one-shot", "torch-two-shot"),
    "all-gather": ("nccl", "torch-low-contention"),
    "reduce-scatter": ("nccl", "torch-reduce-scatter", "torch-low-contention"),
}


def number_of_bytes(text):
    unit = "KMG".find(text[-1])
    return int(text) if unit < 0 else int(text[:-1]) << 10 * (unit + 1)


def numbers(text):
    return [int(one) for one in text.split(",")]


def iterations_of(size, given):
    """Calls of a batch: as many as were given; else 40 up to 8 MB, then as many as move the same bytes, but 5 at least."""
    return given if given > 0 else max(LEAST_ITERATIONS, min(ITERATIONS, BATCH_BYTES // size))


@dataclass(frozen=True)
class Call:
    """A call of a collective; `count` is what nvrar_bench passes to it."""

    collective: str
    world: int
    count: int
    # Of a fused all-reduce: what is done with the sums, and the elements of a row.
    form: str = ""
    hidden: int = 0

    @property
    def name(self):
        return f"fused-{self.form}-{self.hidden}" if self.form else self.collective

    @property
    def rows(self):
        return self.count // self.hidden

    @property
    def send_elements(self):
        return self.count * (self.world if self.collective == "reduce-scatter" else 1)

    @property
    def recv_elements(self):
        return self.count * (self.world if self.collective == "all-gather" else 1)

    @property
    def elements(self):
        """Of the larger side, as nccl-tests count size."""
        return max(self.send_elements, self.recv_elements)

    @property
    def op(self):
        return "none" if self.collective == "all-gather" else "sum"


def calls_of(collective, world, element_bytes, least, most, factor):
    """The calls to measure, in order; sizes of less than one element for each rank are rounded up."""
    parts = 1 if collective == "all-reduce" else world
    calls = []
    size = least
    while size <= most:
        call = Call(collective, world, max(1, size // element_bytes // parts))
        if not calls or calls[-1] != call:
            calls.append(call)
        size *= factor
    return calls


def calls_of_rows(form, world, hidden, rows):
    """Fused all-reduces, the numbers of whose rows are the sizes."""
    return [Call("all-reduce", world, one * hidden, form, hidden) for one in rows]


def contestants_of(collective, size):
    return [
        name for name in CONTESTANTS[collective] if name != "torch-one-shot" or size <= MOST_ONE_SHOT_BYTES
    ]
