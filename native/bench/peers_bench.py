"""The controls on GPUs: NCCL's all-reduce and those of PyTorch's symmetric memory, by protocol B of docs/benchmarks.md.

peers_bench.py --csv FILE --processes P [--min BYTES --max BYTES --factor N --type NAME --iters N --repeats N --warmup N]

`bin/nvrar bench --backend cuda` starts it. It starts a process for each rank, takes the options of nvrar_bench, does without those that say nothing to it, and writes
the same file. A batch is a CUDA graph of back-to-back calls, or the calls themselves, behind a spin barrier in shared host memory; its
figure is that of the slowest rank, a cell the median of its batches. Then each is called once more with fresh data, every element of
which is compared on every rank.
"""

import argparse
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

HEADER = (
    "implementation,collective,processes,bytes,count,type,op,root,algorithm,placement,time_us,algbw_gbps,busbw_gbps,wrong,"
    "time_min_us,time_max_us,iterations,repeats,backend,mode"
)
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
LINE_BYTES = 64
LIMIT_S = 120


def number_of_bytes(text):
    unit = "KMG".find(text[-1])
    return int(text) if unit < 0 else int(text[:-1]) << 10 * (unit + 1)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--csv", required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--min", type=number_of_bytes, default=1 << 10)
    parser.add_argument("--max", type=number_of_bytes, default=8 << 20)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--type", choices=TYPES, default="bfloat16")
    parser.add_argument("--iters", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--mode", default="graph,eager")
    return parser.parse_known_args()[0]


class Barrier:
    """Every rank counts in a cache line of its own, and waits until all have reached its count."""

    def __init__(self, rank, world):
        self.rank, self.world, self.count = rank, world, 0
        path = f"/dev/shm/peers_bench_{os.environ['MASTER_PORT']}"
        if rank == 0:
            with open(path, "wb") as file:
                file.write(bytes(LINE_BYTES * world))
        dist.barrier()
        torch.cuda.synchronize()
        file = os.open(path, os.O_RDWR)
        self.shared = mmap.mmap(file, LINE_BYTES * world)
        os.close(file)
        dist.barrier()
        torch.cuda.synchronize()
        if rank == 0:
            os.unlink(path)

    def wait(self):
        self.count += 1
        struct.pack_into("Q", self.shared, LINE_BYTES * self.rank, self.count)
        end = time.monotonic() + LIMIT_S
        for rank in range(self.world):
            while struct.unpack_from("Q", self.shared, LINE_BYTES * rank)[0] < self.count:
                if time.monotonic() > end:
                    raise TimeoutError(f"rank {rank} does not come")


class Bench:
    def __init__(self, options, rank, world, device):
        self.options, self.rank, self.world, self.device = options, rank, world, device
        self.type = TYPES[options.type]
        self.barrier = Barrier(rank, world)
        self.seed = 0
        self.rows = []

    def input_of(self, rank, count):
        """Whole numbers whose sums every type holds exactly."""
        generator = torch.Generator(self.device).manual_seed(self.seed * 64 + rank)
        return torch.randint(-15, 16, (count,), generator=generator, device=self.device, dtype=torch.int32)

    def fill(self, tensor):
        self.seed += 1
        tensor.copy_(self.input_of(self.rank, tensor.numel()))

    def wrong(self, result):
        expected = sum(self.input_of(rank, result.numel()) for rank in range(self.world)).to(self.type)
        wrong = (result != expected).sum()
        dist.all_reduce(wrong)
        return int(wrong.item())

    def times(self, submit, stream):
        """Per batch, of the ranks the slowest, in us a call; sorted."""
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        us = []
        for batch in range(self.options.warmup + self.options.repeats):
            torch.cuda.synchronize()
            self.barrier.wait()
            begin.record(stream)
            submit()
            end.record(stream)
            end.synchronize()
            if batch >= self.options.warmup:
                us.append(begin.elapsed_time(end) * 1e3 / self.options.iters)
        slowest = torch.tensor(us, device=self.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return sorted(slowest.tolist())

    def measure(self, name, placement, given, result, call):
        """`call` reduces `given` into `result`, which is the same where it is in place."""
        stream = torch.cuda.Stream()

        def batch():
            for _ in range(self.options.iters):
                call()

        self.fill(given)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(5):
                call()
            stream.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            for mode in ("graph", "eager"):
                if mode not in self.options.mode.split(","):
                    continue
                if mode == "graph":
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, stream=stream):
                        batch()
                    us = self.times(graph.replay, stream)
                else:
                    us = self.times(batch, stream)
                self.fill(given)
                if result is not given:
                    result.fill_(float("nan"))
                torch.cuda.synchronize()
                self.barrier.wait()
                call()
                torch.cuda.synchronize()
                self.add(name, placement, given, mode, us, self.wrong(result))

    def add(self, name, placement, given, mode, us, wrong):
        size = given.numel() * given.element_size()
        half = len(us) // 2
        median = us[half] if len(us) % 2 else (us[half - 1] + us[half]) / 2
        algbw = size / median * 1e-3
        busbw = algbw * 2 * (self.world - 1) / self.world
        self.rows.append(
            f"{name},all-reduce,{self.world},{size},{given.numel()},{self.options.type},sum,-1,none,{placement},{median:.4f},"
            f"{algbw:.4f},{busbw:.4f},{wrong},{us[0]:.4f},{us[-1]:.4f},{self.options.iters},{self.options.repeats},cuda,{mode}"
        )

    def size(self, size):
        count = max(1, size // torch.empty(0, dtype=self.type).element_size())
        buffer = torch.empty(count, dtype=self.type, device=self.device)
        self.measure("nccl", "in", buffer, buffer, lambda: dist.all_reduce(buffer))
        try:
            self.symmetric(count)
        except (RuntimeError, AttributeError) as error:  # Not every PyTorch has it, and not on every GPU.
            if self.rank == 0:
                print(f"peers_bench: PyTorch's symmetric memory, {size} bytes, is left out: {error}", file=sys.stderr)

    def symmetric(self, count):
        group = dist.group.WORLD.group_name
        shared = symmetric_memory.empty(count, dtype=self.type, device=self.device)
        symmetric_memory.rendezvous(shared, group)
        out = torch.empty(count, dtype=self.type, device=self.device)
        ops = torch.ops.symm_mem
        self.measure(
            "torch-one-shot", "out", shared, out, lambda: ops.one_shot_all_reduce_out(shared, "sum", group, out)
        )
        self.measure("torch-two-shot", "in", shared, shared, lambda: ops.two_shot_all_reduce_(shared, "sum", group))


def launch(processes):
    """This script again for every rank; ends all when one fails, and says how it ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, WORLD_SIZE=str(processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    children = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for rank in range(processes):
            children.append(subprocess.Popen([sys.executable, *sys.argv], env=dict(common, RANK=str(rank))))
        codes = [None]
        while None in codes and not any(codes):
            time.sleep(0.05)
            codes = [child.poll() for child in children]
        return next((code for code in codes if code), 0)
    finally:
        for child in children:
            child.kill()
            child.wait()


def main():
    options = parse()
    if "RANK" not in os.environ:
        sys.exit(launch(options.processes))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    bench = Bench(options, rank, world, device)
    size = options.min
    while size <= options.max:
        bench.size(size)
        size *= options.factor
    if rank == 0:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write("\n".join([HEADER, *bench.rows]) + "\n")
        print(f"peers_bench: PyTorch {torch.__version__}, NCCL {torch.cuda.nccl.version()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
