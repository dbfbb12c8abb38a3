"""Who hung? Two ranks replay a graph of all-reduces until rank 1 skips a call, stops or dies. What rank 0 then says, and
after how long: by NCCL, by PyTorch's symmetric memory and by libnvrar.

    python3 who_hung.py --library LIBNVRAR [--limit 120] [--watchdog 60] [--deadline 30]

Needs two GPUs and PyTorch. Each pair of ranks is killed at the limit. All pairs run at once, on the same two GPUs.
"""

import argparse
import ctypes
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

CALLS = 20  # of a graph
COUNT = 8192  # bfloat16 elements
GOOD_REPLAYS = 5
FAULTS = ("skips a call", "stops", "dies")
PR_SET_PDEATHSIG = 1
CONTENDERS = ("NCCL", "symmetric memory", "nvrar")


class Config(ctypes.Structure):
    """The first fields of nvrar_config, which the library takes for those of an older header."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("size", "backend", "rank", "world_size", "device", "ranks_per_node")),
        *((name, ctypes.c_uint64) for name in ("ring_bytes", "timeout_ns")),
        *((name, ctypes.c_int32) for name in ("memory", "concurrent_groups", "shared_devices", "exclusive")),
        *((name, ctypes.c_uint64) for name in ("arena_bytes", "join_timeout_ns")),
    ]


class Nvrar:
    """A group of two by the C functions; the bytes that members exchange travel through the store."""

    CUDA, BFLOAT16, SUM, AUTO = 2, 9, 0, 0

    def __init__(self, library, rank, store, deadline):
        self.library = ctypes.CDLL(library)
        self.library.nvrar_last_error.restype = ctypes.c_char_p
        identity = ctypes.create_string_buffer(256)
        if rank == 0:
            self.check(self.library.nvrar_unique_id(self.CUDA, identity))
            store.set("id", identity.raw.hex())
        identity.raw = bytes.fromhex(store.get("id").decode())
        second = 10**9
        config = Config(
            ctypes.sizeof(Config), self.CUDA, rank, 2, rank, 0, 0, int(deadline * second), 0, 0, 0, 0, 0, 60 * second
        )
        descriptor = ctypes.create_string_buffer(512)
        self.comm = ctypes.c_void_p()
        self.check(
            self.library.nvrar_prepare(
                ctypes.byref(config), None, 0, identity, descriptor, ctypes.byref(self.comm)
            )
        )
        store.set(f"descriptor {rank}", descriptor.raw.hex())
        both = b"".join(bytes.fromhex(store.get(f"descriptor {r}").decode()) for r in range(2))
        self.check(self.library.nvrar_connect(self.comm, both))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.nvrar_last_error().decode())

    def all_reduce(self, values, stream):
        address = ctypes.c_uint64(values.data_ptr())
        self.check(
            self.library.nvrar_all_reduce(
                self.comm,
                address,
                address,
                ctypes.c_uint64(values.numel()),
                self.BFLOAT16,
                self.SUM,
                self.AUTO,
                ctypes.c_uint64(stream.cuda_stream),
            )
        )

    def throw_if_failed(self):
        self.check(self.library.nvrar_async_error(self.comm))


def contender(name, arguments, rank, store):
    """What all-reduces a tensor on the current stream, and what throws a failure afterwards."""
    import torch
    import torch.distributed as dist

    if name == "nvrar":
        group = Nvrar(arguments.library, rank, store, arguments.deadline)
        values = torch.ones(COUNT, dtype=torch.bfloat16, device="cuda")
        return (lambda: group.all_reduce(values, torch.cuda.current_stream())), group.throw_if_failed
    dist.init_process_group(
        "nccl",
        store=store,
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=arguments.watchdog),
        device_id=torch.device("cuda", rank),
    )
    if name == "NCCL":
        values = torch.ones(COUNT, dtype=torch.bfloat16, device="cuda")
        return (lambda: dist.all_reduce(values)), lambda: None
    import torch.distributed._symmetric_memory as symmetric_memory

    world = dist.group.WORLD.group_name
    values = symmetric_memory.empty(COUNT, dtype=torch.bfloat16, device="cuda")
    symmetric_memory.rendezvous(values, world)
    values.fill_(1)
    out = torch.empty_like(values)
    return (lambda: torch.ops.symm_mem.one_shot_all_reduce_out(values, "sum", world, out)), lambda: None


def be_rank(arguments):
    import torch
    import torch.distributed as dist

    rank, fault = arguments.rank, arguments.fault
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.cuda.set_device(rank)
    store = dist.TCPStore("127.0.0.1", arguments.port, 2, rank == 0)
    reduce, throw_if_failed = contender(arguments.contender, arguments, rank, store)
    stream = torch.cuda.Stream()

    def captured(calls):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            for _ in range(calls):
                reduce()
        return graph

    with torch.cuda.stream(stream):
        reduce()
    torch.cuda.synchronize()
    good = captured(CALLS)
    last = captured(CALLS - 1) if rank == 1 and fault == "skips a call" else good
    store.add("ready", 1)
    while store.add("ready", 0) < 2:
        time.sleep(0.01)
    for _ in range(GOOD_REPLAYS):
        good.replay()
        torch.cuda.synchronize()
        throw_if_failed()
    if rank == 1 and fault != "skips a call":
        os.kill(os.getpid(), signal.SIGSTOP if fault == "stops" else signal.SIGKILL)
    print("FAULT", flush=True)
    try:
        for _ in range(2):
            last.replay()
            torch.cuda.synchronize()
            throw_if_failed()
        print("DONE", flush=True)
        if rank == 1:
            time.sleep(arguments.limit)  # it does not know that it has skipped a call
    except Exception as error:
        print(f"SAID {error}", flush=True)
    os._exit(0)


class Pair:
    """The two processes of a contender and a fault, and what rank 0 says."""

    def __init__(self, name, fault, port, arguments):
        self.name, self.fault, self.limit = name, fault, arguments.limit
        command = [sys.executable, "-u", __file__, "--contender", name, "--fault", fault, "--port", str(port)]
        for option in ("library", "limit", "watchdog", "deadline"):
            command += [f"--{option}", str(getattr(arguments, option))]
        environment = dict(
            os.environ, NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1"
        )
        self.ranks = [
            subprocess.Popen(
                [*command, "--rank", str(rank)],
                env=environment,
                text=True,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=subprocess.STDOUT if rank == 0 else None,
            )
            for rank in range(2)
        ]
        self.begin = self.after = self.hung = None
        self.said = ""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.ranks[0].stdout:
            line = line.strip()
            if line == "FAULT":
                self.begin = time.monotonic()
            elif self.begin is not None and self.after is None and line:
                self.after = time.monotonic() - self.begin
                self.said = line.removeprefix("SAID ")
            elif self.begin is None:
                self.said = line  # why there was no fault

    def end(self, until):
        try:
            self.ranks[0].wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            if self.begin is not None:
                self.hung = time.monotonic() - self.begin
        self.kill()
        self.reader.join()

    def kill(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()

    def result(self):
        if self.begin is None:
            return f"did not begin: {self.said}"
        if self.said == "DONE":
            return "went on as if nothing had happened"
        if self.after is not None:
            return f"after {self.after:.1f} s: {self.said}"
        if self.hung is None:
            return f"ended without a word, with {self.ranks[0].returncode}"
        return f"nothing in {self.hung:.0f} s"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libnvrar.so")
    parser.add_argument("--limit", type=float, default=120, help="seconds until all are killed")
    parser.add_argument("--watchdog", type=float, default=60, help="the timeout of PyTorch's process group")
    parser.add_argument("--deadline", type=float, default=30, help="the timeout of libnvrar's calls")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--fault", choices=FAULTS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        be_rank(arguments)
    cases = [(name, fault) for name in CONTENDERS for fault in FAULTS]
    pairs = []
    try:
        for (name, fault), port in zip(cases, free_ports(len(cases))):
            pairs.append(Pair(name, fault, port, arguments))
        starting = time.monotonic()
        while any(pair.begin is None and pair.ranks[0].poll() is None for pair in pairs):
            if time.monotonic() - starting > arguments.limit:
                break
            time.sleep(0.1)
        until = time.monotonic() + arguments.limit
        for pair in pairs:
            pair.end(until)
            print(json.dumps({"contender": pair.name, "rank 1": pair.fault, "rank 0": pair.result()}), flush=True)
    finally:
        for pair in pairs:
            pair.kill()


if __name__ == "__main__":
    main()
