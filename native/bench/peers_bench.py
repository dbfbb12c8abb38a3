"""The controls on GPUs: NCCL and what PyTorch's symmetric memory has of the collective, by protocol B of docs/reference/benchmarks.md.

peers_bench.py --json FILE --processes P [--collective NAME --min BYTES --max BYTES --factor N --type NAME --iters N --repeats N
    --warmup N --mode NAMES --fused 0|1 --form NAME --hidden N --rows N,...]

`bin/nvrar bench --backend cuda` starts it. It takes the options of nvrar_bench, ignores those that only nvrar_bench has, starts a process
for each rank, and writes the same lines. A batch is a CUDA graph of back-to-back calls, or the calls themselves, behind a spin barrier in shared host memory; its
figure is that of the slowest rank, a cell the median of its batches. Then each is called once more with fresh data, every element of
which is compared on every rank. peers_plan.py says what is measured, and how often. Behind the all-reduces of --fused 1 comes a
kernel of peers_fusion.py in the same stream or graph.
"""

import argparse
import contextlib
import sys
import time

import peers  # before PyTorch
import peers_fusion
import peers_plan
import torch
import torch.distributed as dist
from peers import Barrier, GivenUp, returning

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# Of what is added to the sums; the data has seeds from 64 on.
RESIDUAL_SEED, WEIGHT_SEED = 1, 2


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--collective", choices=peers_plan.CONTESTANTS, default="all-reduce")
    parser.add_argument("--min", type=peers_plan.number_of_bytes, default=1 << 10)
    parser.add_argument("--max", type=peers_plan.number_of_bytes, default=8 << 20)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--type", choices=TYPES, default="bfloat16")
    parser.add_argument("--iters", type=int, default=0, help="0: by size")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--mode", default="graph,eager")
    parser.add_argument("--fused", type=int, choices=(0, 1), default=0)
    parser.add_argument("--form", choices=peers_plan.FORMS, default="rms-norm")
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--links", type=int, default=0, help="not 0: NCCL over sockets; what needs one host is left out")
    parser.add_argument("--rows", type=peers_plan.numbers, default=[1, 2, 4, 8, 16, 32])
    return parser.parse_known_args()[0]


class LeftOut(Exception):
    """What was attempted has failed on some rank. All ranks have agreed on it, and the one that knows why has said so."""


class Bench:
    def __init__(self, options, rank, world, device):
        self.options, self.rank, self.world, self.device = options, rank, world, device
        self.type = TYPES[options.type]
        self.element_bytes = torch.empty(0, dtype=self.type).element_size()
        self.barrier = Barrier(rank, world)
        self.seed = 0
        self.lines = []
        self.fusions = {}

    def input_of(self, rank, count):
        return self.numbers(self.seed * 64 + rank, count)

    def numbers(self, seed, count):
        """Whole numbers whose sums every type holds exactly."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randint(-15, 16, (count,), generator=generator, device=self.device, dtype=torch.int32)

    def fill(self, tensor):
        self.seed += 1
        tensor.copy_(self.input_of(self.rank, tensor.numel()))

    def expected(self, call):
        inputs = [self.input_of(rank, call.send_elements) for rank in range(self.world)]
        if call.collective == "all-gather":
            return torch.cat(inputs).to(self.type)
        first = self.rank * call.count if call.collective == "reduce-scatter" else 0
        return sum(inputs)[first : first + call.recv_elements].to(self.type)

    def wrong(self, call, result):
        if call.form:
            return self.fusion(call).wrong(self.expected(call), result)
        return int((result != self.expected(call)).sum().item())

    def together(self, name, what, step):
        """What `step` returns, or LeftOut on every rank where it fails on one; but without NCCL the rest is of no use.

        `step` may meet the other ranks at the barrier, but makes no collective call besides those that are measured: a rank
        whose step has failed would miss it. So one of them fails before it has submitted what others wait for, or all do.
        """
        first_failed, result = self.world, None
        try:
            result = step()
        except GivenUp:
            pass
        except () if name == "nccl" else (RuntimeError, AttributeError) as error:
            # Not every PyTorch has it, and not on every GPU.
            self.barrier.give_up()
            first_failed = self.rank
            reason = (str(error).splitlines() or [type(error).__name__])[0]
        agreed = torch.tensor([first_failed, -self.barrier.count], device=self.device)
        dist.all_reduce(agreed, op=dist.ReduceOp.MIN)
        first, count = agreed.tolist()
        self.barrier.go_on(-count)
        if first == self.world:
            return result
        if first == self.rank:
            print(f"peers_bench: {name}, {what}, is left out: {reason}", file=sys.stderr, flush=True)
        raise LeftOut

    def times(self, submit, stream, iterations):
        """Of each batch on this rank, in us a call."""
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        us = []
        self.others = 0.0
        for batch in range(self.options.warmup + self.options.repeats):
            torch.cuda.synchronize()
            self.barrier.wait()
            before = time.process_time() - time.thread_time()
            begin.record(stream)
            submit()
            end.record(stream)
            end.synchronize()
            if batch >= self.options.warmup:
                us.append(begin.elapsed_time(end) * 1e3 / iterations)
                self.others += time.process_time() - time.thread_time() - before
        return us

    def say_core_seconds(self, name, mode, call, iterations):
        """Collective: of the threads of all ranks but the calling ones."""
        others = torch.tensor(self.others, device=self.device, dtype=torch.float64)
        dist.all_reduce(others)
        gigabytes = self.bytes_of(call) * iterations * self.options.repeats / 1e9
        if self.rank == 0:
            took = f"{others.item() / gigabytes:.2f} core-seconds a GB of the message"
            print(f"peers_bench: {name} {mode} {self.bytes_of(call)} bytes: all other threads took {took}", file=sys.stderr, flush=True)

    def total(self, wrong):
        """Collective."""
        of_all = torch.tensor(wrong, device=self.device)
        dist.all_reduce(of_all)
        return int(of_all.item())

    def measure(self, name, call):
        what = f"{self.bytes_of(call)} bytes"
        prepared = self.together(name, what, lambda: self.prepare(name, call))
        stream = torch.cuda.Stream()
        self.together(name, what, lambda: self.begin(stream, *prepared))
        for mode in ("graph", "eager"):
            if mode in self.options.mode.split(","):
                # What cannot be captured may still be called.
                with contextlib.suppress(LeftOut):
                    self.measure_in(mode, name, call, stream, *prepared)

    def begin(self, stream, given, result, run):
        self.fill(given)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(5):
                run()
        stream.synchronize()

    def measure_in(self, mode, name, call, stream, given, result, run):
        """`run` makes the call with `given` and returns its result: `result`, which may be `given`, or what it has allocated."""
        what = f"{self.bytes_of(call)} bytes in {mode}"
        iterations = peers_plan.iterations_of(self.bytes_of(call), self.options.iters)

        def batch():
            for _ in range(iterations):
                run()

        def submission():
            if mode == "eager":
                return batch
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                batch()
            return graph.replay

        def check():
            self.fill(given)
            if result is not None and result is not given:
                result.fill_(float("nan"))
            torch.cuda.synchronize()
            self.barrier.wait()
            got = run()
            torch.cuda.synchronize()
            return self.wrong(call, got)

        with torch.cuda.stream(stream):
            submit = self.together(name, what, submission)
            us = self.together(name, what, lambda: self.times(submit, stream, iterations))
            if self.options.links != 0:
                self.say_core_seconds(name, mode, call, iterations)
            wrong = self.together(name, what, check)
            self.add(
                name, call, "in" if result is given else "out", mode, peers.slowest(us, self.device), iterations, self.total(wrong)
            )

    def calls(self):
        options = self.options
        if options.fused:
            return peers_plan.calls_of_rows(options.form, self.world, options.hidden, options.rows)
        return peers_plan.calls_of(
            options.collective, self.world, self.element_bytes, options.min, options.max, options.factor
        )

    def bytes_of(self, call):
        return call.elements * self.element_bytes

    def add(self, name, call, placement, mode, us, iterations, wrong):
        shape = {
            "name": call.name, "processes": self.world, **({"links": self.options.links} if self.options.links else {}), "backend": "cuda",
            "mode": mode, "placement": placement, "type": self.options.type, "op": call.op, "root": -1, "algorithm": "none",
            "bytes": self.bytes_of(call), "count": call.count}
        kind = "fused" if call.form else "collective"
        self.lines.append(peers.result(kind, name, shape, "us", us, iterations=iterations, wrong=wrong))

    def empty(self, elements):
        return torch.empty(elements, dtype=self.type, device=self.device)

    def run(self, call):
        for name in peers_plan.contestants_of(call.collective, self.bytes_of(call)):
            if self.options.links != 0 and name != "nccl":
                continue
            with contextlib.suppress(LeftOut):
                self.measure(name, call)

    def prepare(self, name, call):
        """What `measure_in` takes: what is given, where the result will be, and the call."""
        given, result, run = self.nccl(call) if name == "nccl" else self.symmetric(name, call)
        if not call.form:
            return given, result, run
        fusion = self.fusion(call)
        return given, None, lambda: fusion.behind(run())

    def fusion(self, call):
        """The same for all contestants and ranks."""
        if call not in self.fusions:
            residual = self.numbers(RESIDUAL_SEED, call.count).to(self.type).view(call.rows, call.hidden)
            weight = self.numbers(WEIGHT_SEED, call.hidden)
            # A factor is never 0, so that each element of h shows in the output.
            factor = weight if call.form == "bias" else (weight + 16) / 8
            self.fusions[call] = peers_fusion.Fusion(call.form, residual, factor.to(self.type))
        return self.fusions[call]

    def nccl(self, call):
        given = self.empty(call.send_elements)
        if call.collective == "all-reduce":
            return given, given, peers.all_reduce("nccl", given, None)
        out = self.empty(call.recv_elements)
        if call.collective == "all-gather":
            return given, out, returning(out, lambda: dist.all_gather_into_tensor(out, given))
        return given, out, returning(out, lambda: dist.reduce_scatter_tensor(out, given))

    def symmetric(self, name, call):
        group, ops = dist.group.WORLD.group_name, torch.ops.symm_mem
        shared = peers.symmetric(call.send_elements, self.type, self.device)
        if call.collective == "all-reduce":
            out = self.empty(call.recv_elements) if name == "torch-one-shot" else shared
            return shared, out, peers.all_reduce(name.removeprefix("torch-"), shared, out)
        if name == "torch-reduce-scatter":
            out = self.empty(call.recv_elements)
            return shared, out, returning(out, lambda: ops.reduce_scatter_out(shared, group, False, out))
        # These run on a stream of PyTorch's, which the caller's waits for in wait_tensor, and allocate their results.
        wait = torch.ops._c10d_functional.wait_tensor
        if call.collective == "all-gather":
            return shared, None, lambda: wait(ops._low_contention_all_gather(shared, group))
        return shared, None, lambda: wait(ops._low_contention_reduce_scatter(shared, "sum", group))


def measure(options, rank, world, device):
    bench = Bench(options, rank, world, device)
    for call in bench.calls():
        bench.run(call)
    return bench.lines


if __name__ == "__main__":
    given = parse()
    peers.run(given.processes, given.json, lambda *rank: measure(given, *rank))
