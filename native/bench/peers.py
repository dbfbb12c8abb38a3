"""The harness for NCCL and PyTorch: processes, barrier, collective helpers and lines of results.

A loop imports this module before PyTorch, and gives `run` the function that each rank calls. README.md says what is in a line.
"""

import json
import mmap
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

# Before PyTorch is imported, in each process: our kernels do not use NVLink multicast, and some hosts do not allow it.
os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LINE_BYTES = 64
LIMIT_S = 120


def launch(processes, environment):
    """This script again for every rank; ends all when one fails, and says how it ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, WORLD_SIZE=str(processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **environment)
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


def run(processes, file, measure, **environment):
    """Starts a process for each rank, which calls measure(rank, world, device) for its lines; rank 0 writes them."""
    if "RANK" not in os.environ:
        sys.exit(launch(processes, environment))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    lines = measure(rank, world, device)
    if rank == 0:
        write(file, lines)
    dist.destroy_process_group()


def version():
    return f"PyTorch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"


def write(file, lines):
    about = {"kind": "run", "machine": socket.gethostname(), "command": " ".join(sys.argv), "versions": {"nccl": version()}}
    with open(file, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in (about, *lines))


def result(kind, library, shape, unit, batches, **more):
    """A line of a result, of the times of its batches."""
    return {
        "kind": kind, "library": library, "shape": shape, "unit": unit, "median": statistics.median(batches), "least": min(batches),
        "most": max(batches), "repeats": len(batches), **more}


class GivenUp(Exception):
    """Another rank has given up what is attempted."""


class Barrier:
    """Every rank counts in a cache line of its own, and waits until all have reached its count, or one has given up.

    Behind its count a rank has the number of the attempt that it has given up. Between two attempts all ranks go on to the same
    count.
    """

    def __init__(self, rank, world):
        self.rank, self.world, self.count, self.attempt = rank, world, 0, 1
        path = f"/dev/shm/peers_bench_{os.environ['MASTER_PORT']}"
        if rank == 0:
            with open(path, "wb") as file:
                file.write(bytes(LINE_BYTES * world))
        meet()
        file = os.open(path, os.O_RDWR)
        self.shared = mmap.mmap(file, LINE_BYTES * world)
        os.close(file)
        meet()
        if rank == 0:
            os.unlink(path)

    def wait(self):
        self.count += 1
        struct.pack_into("Q", self.shared, LINE_BYTES * self.rank, self.count)
        end = time.monotonic() + LIMIT_S
        for rank in range(self.world):
            while struct.unpack_from("Q", self.shared, LINE_BYTES * rank)[0] < self.count:
                if struct.unpack_from("Q", self.shared, LINE_BYTES * rank + 8)[0] == self.attempt:
                    raise GivenUp
                if time.monotonic() > end:
                    raise TimeoutError(f"rank {rank} does not come")

    def give_up(self):
        struct.pack_into("Q", self.shared, LINE_BYTES * self.rank + 8, self.attempt)

    def go_on(self, count):
        """Called by all ranks between two attempts with the greatest count of any."""
        self.count = count
        self.attempt += 1


def meet():
    """Collective: waits for all ranks and their enqueued work."""
    dist.barrier()
    torch.cuda.synchronize()


def slowest(values, device):
    """Collective: the slowest rank's value, for each value."""
    values = torch.tensor(values, device=device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values.tolist()


def symmetric(shape, dtype, device):
    """Collective: memory that the other ranks reach."""
    import torch.distributed._symmetric_memory as symmetric_memory  # older versions lack it, and one rank needs none

    tensor = symmetric_memory.empty(shape, dtype=dtype, device=device)
    symmetric_memory.rendezvous(tensor, dist.group.WORLD.group_name)
    return tensor


def all_reduce(name, tensor, out):
    """Makes a call of a library's all-reduce, which returns its result: the tensor itself, but `out` by the one-shot."""
    group, ops = dist.group.WORLD.group_name, torch.ops.symm_mem
    if name == "one-shot":
        return returning(out, lambda: ops.one_shot_all_reduce_out(tensor, "sum", group, out))
    if name == "two-shot":
        return returning(tensor, lambda: ops.two_shot_all_reduce_(tensor, "sum", group))
    return returning(tensor, lambda: dist.all_reduce(tensor))


def returning(result_of, call):
    def run_call():
        call()
        return result_of

    return run_call
