"""That the controls on GPUs are measured at the sizes and numbers of calls of nvrar_bench, and by which operations, without PyTorch."""

import contextlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, BENCH)

TORCH = mock.MagicMock()
for module in ("torch", "torch.nn", "torch.nn.functional", "torch.distributed", "torch.distributed._symmetric_memory"):
    sys.modules[module] = mock.MagicMock()
sys.modules["torch"] = TORCH
TORCH.distributed = sys.modules["torch.distributed"]

import peers  # noqa: E402
import peers_bench  # noqa: E402
import peers_plan  # noqa: E402

MIB = 1 << 20


class PeersPlanTest(unittest.TestCase):
    def test_size_is_that_of_the_larger_side(self):
        (gather,) = peers_plan.calls_of("all-gather", 4, 2, 4096, 4096, 2)
        self.assertEqual((gather.count, gather.send_elements, gather.recv_elements), (512, 512, 2048))
        (scatter,) = peers_plan.calls_of("reduce-scatter", 4, 2, 4096, 4096, 2)
        self.assertEqual((scatter.count, scatter.send_elements, scatter.recv_elements), (512, 2048, 512))
        (reduce,) = peers_plan.calls_of("all-reduce", 4, 2, 4096, 4096, 2)
        self.assertEqual((reduce.count, reduce.send_elements, reduce.recv_elements), (2048, 2048, 2048))
        for call in (gather, scatter, reduce):
            self.assertEqual(call.elements * 2, 4096)

    def test_sizes_below_an_element_for_each_rank_are_rounded_up_and_measured_once(self):
        calls = peers_plan.calls_of("all-gather", 4, 4, 4, 64, 2)
        self.assertEqual([call.elements * 4 for call in calls], [16, 32, 64])

    def test_batches_of_large_calls_are_shorter_unless_their_length_is_given(self):
        for size, calls in ((1024, 40), (8 * MIB, 40), (16 * MIB, 20), (32 * MIB, 10), (64 * MIB, 5), (1024 * MIB, 5)):
            self.assertEqual(peers_plan.iterations_of(size, 0), calls, size)
        self.assertEqual(peers_plan.iterations_of(64 * MIB, 40), 40)

    def test_one_shot_is_left_out_beyond_8_mb_and_nothing_multicasts(self):
        self.assertIn("torch-one-shot", peers_plan.contestants_of("all-reduce", 8 * MIB))
        self.assertEqual(peers_plan.contestants_of("all-reduce", 16 * MIB), ["nccl", "torch-two-shot"])
        self.assertEqual(peers_plan.contestants_of("all-gather", 64 * MIB), ["nccl", "torch-low-contention"])
        self.assertEqual(
            peers_plan.contestants_of("reduce-scatter", 64 * MIB), ["nccl", "torch-reduce-scatter", "torch-low-contention"]
        )

    def test_rows_are_the_sizes_of_fused_all_reduces_which_say_their_form(self):
        calls = peers_plan.calls_of_rows("rms-norm", 4, 8192, peers_plan.numbers("1,32"))
        self.assertEqual([(call.rows, call.elements * 2) for call in calls], [(1, 16384), (32, 32 * 16384)])
        self.assertEqual({call.name for call in calls}, {"fused-rms-norm-8192"})
        (plain,) = peers_plan.calls_of("all-reduce", 4, 2, 4096, 4096, 2)
        self.assertEqual(plain.name, "all-reduce")

    def test_sizes_have_the_units_of_the_command_line(self):
        self.assertEqual([peers_plan.number_of_bytes(text) for text in ("64", "8K", "64M")], [64, 8192, 64 * MIB])


class Tensor:
    """What the script does with PyTorch's, on a list."""

    def __init__(self, values, device=None):
        self.values = list(values) if isinstance(values, (list, tuple)) else [values]

    def numel(self):
        return len(self.values)

    def copy_(self, other):
        self.values = list(other.values)

    def to(self, _):
        return Tensor(self.values)

    def sum(self):
        return Tensor([sum(self.values)])

    def item(self):
        (value,) = self.values
        return value

    def tolist(self):
        return list(self.values)

    def __getitem__(self, part):
        return Tensor(self.values[part])

    def __ne__(self, other):
        return Tensor([int(one != another) for one, another in zip(self.values, other.values, strict=True)])

    def __add__(self, other):
        return Tensor([one + another for one, another in zip(self.values, other.values, strict=True)])

    def __radd__(self, zero):
        return self


def pretend_tensors():
    TORCH.tensor = Tensor
    TORCH.cat = lambda tensors: Tensor([value for one in tensors for value in one.values])
    TORCH.Generator = lambda _: types.SimpleNamespace(manual_seed=random.Random)
    TORCH.randint = lambda low, high, size, generator, **_: Tensor([generator.randrange(low, high) for _ in range(*size)])
    TORCH.distributed.ReduceOp = types.SimpleNamespace(MIN=min, MAX=max)


def bench_of(rank, world, **options):
    bench = peers_bench.Bench.__new__(peers_bench.Bench)
    bench.options = types.SimpleNamespace(**dict({"type": "bfloat16", "iters": 0, "repeats": 3, "mode": "graph", "links": 0}, **options))
    bench.rank, bench.world, bench.device, bench.element_bytes = rank, world, f"cuda:{rank}", 2
    bench.type = TORCH.bfloat16
    bench.lines, bench.seed, bench.barrier, bench.fusions = [], 0, mock.MagicMock(count=0), {}
    return bench


class PeersDataTest(unittest.TestCase):
    """What a result is compared with."""

    def setUp(self):
        pretend_tensors()
        self.bench = bench_of(2, 4)
        self.bench.seed = 5

    def inputs(self, elements):
        inputs = [self.bench.input_of(rank, elements).tolist() for rank in range(4)]
        self.assertEqual(len(set(map(tuple, inputs))), 4)
        return inputs

    def test_all_gather_has_the_inputs_in_the_order_of_the_ranks(self):
        expected = self.bench.expected(peers_plan.Call("all-gather", 4, 8)).tolist()
        self.assertEqual(expected, list(itertools.chain(*self.inputs(8))))

    def test_reduce_scatter_has_the_ranks_own_part_of_the_sums(self):
        sums = [sum(column) for column in zip(*self.inputs(32))]
        for rank in range(4):
            self.bench.rank = rank
            expected = self.bench.expected(peers_plan.Call("reduce-scatter", 4, 8)).tolist()
            self.assertEqual(expected, sums[8 * rank : 8 * rank + 8])

    def test_all_reduce_has_all_sums(self):
        expected = self.bench.expected(peers_plan.Call("all-reduce", 4, 8)).tolist()
        self.assertEqual(expected, [sum(column) for column in zip(*self.inputs(8))])

    def test_what_a_rank_gives_is_what_the_others_expect_of_it_and_is_new_each_time(self):
        given = Tensor([0] * 8)
        self.bench.fill(given)
        first = given.tolist()
        self.assertEqual(first, bench_with_seed(0, self.bench.seed).input_of(2, 8).tolist())
        self.bench.fill(given)
        self.assertNotEqual(first, given.tolist())

    def test_between_linked_nodes_only_nccl_is_measured(self):
        for links, measured in ((0, ["nccl", "torch-one-shot", "torch-two-shot"]), (1, ["nccl"])):
            bench = bench_of(0, 2, links=links)
            names = []
            bench.measure = lambda name, _: names.append(name)
            bench.run(peers_plan.Call("all-reduce", 2, 1024))
            self.assertEqual(names, measured)

    def test_wrong_elements_are_counted(self):
        call = peers_plan.Call("all-reduce", 4, 8)
        result = self.bench.expected(call)
        self.assertEqual(self.bench.wrong(call, result), 0)
        result.values[7] += 1
        result.values[0] -= 1
        self.assertEqual(self.bench.wrong(call, result), 2)


def bench_with_seed(rank, seed):
    bench = bench_of(rank, 4)
    bench.seed = seed
    return bench


class PeersBenchTest(unittest.TestCase):
    """Notes which operation each control calls and the row that it adds, with times and results that are given."""

    def setUp(self):
        TORCH.reset_mock()
        TORCH.distributed.reset_mock()
        pretend_tensors()
        self.events, self.made = [], {}
        TORCH.empty.side_effect = self.empty
        self.shared = peers.torch.distributed._symmetric_memory.empty.return_value
        self.group = TORCH.distributed.group.WORLD.group_name
        bench = self.bench = bench_of(0, 2)
        bench.fill = lambda tensor: self.events.append(("fill", tensor))
        bench.times = self.times
        bench.wrong = self.wrong

    def empty(self, elements, **_):
        made = self.made[elements] = mock.MagicMock()
        return made

    def times(self, submit, stream, iterations):
        self.events.append(("times", iterations))
        return [4.0, 1.0, 2.0]

    def wrong(self, call, result):
        self.events.append(("wrong", result))
        return 7

    def run_size(self, collective, size):
        (call,) = peers_plan.calls_of(collective, 2, 2, size, size, 2)
        self.bench.run(call)
        operations = [str(one) for one in TORCH.ops.symm_mem.mock_calls + TORCH.distributed.mock_calls]
        self.assertFalse([one for one in operations if "multimem" in one])
        return self.bench.lines

    def assert_each_call(self, operation, count, *arguments):
        self.assertEqual(operation.call_args_list, [mock.call(*arguments)] * count)

    def test_all_gather_is_measured_out_of_place_by_nccl_and_by_copies(self):
        rows = self.run_size("all-gather", 64 << 20)
        for name, row in zip(("nccl", "torch-low-contention"), rows, strict=True):
            self.assertEqual(row["library"], name)
            shape = {"name": "all-gather", "processes": 2, "bytes": 64 << 20, "count": 16 << 20, "op": "none", "placement": "out", "mode": "graph"}
            self.assertEqual(row["shape"], row["shape"] | shape)
            self.assertEqual((row["median"], row["least"], row["most"], row["wrong"], row["iterations"]), (2, 1, 4, 7, 5))
        # The five calls before, those of the graph, and the one that is checked.
        calls = 5 + 5 + 1
        self.assert_each_call(
            TORCH.distributed.all_gather_into_tensor, calls, self.made[32 << 20], self.made[16 << 20]
        )
        gather = TORCH.ops.symm_mem._low_contention_all_gather
        self.assert_each_call(gather, calls, self.shared, self.group)
        self.assert_each_call(TORCH.ops._c10d_functional.wait_tensor, calls, gather.return_value)

    def test_reduce_scatter_is_measured_by_nccl_and_two_operations_of_pytorch(self):
        outs = []
        TORCH.empty.side_effect = lambda elements, **_: outs.append((elements, self.empty(elements))) or outs[-1][1]
        rows = self.run_size("reduce-scatter", 1024)
        self.assertEqual([row["library"] for row in rows], ["nccl", "torch-reduce-scatter", "torch-low-contention"])
        (sent, given), (received, out), (of_torch, torch_out) = outs
        self.assertEqual((sent, received, of_torch), (512, 256, 256))
        calls = 5 + 40 + 1
        self.assert_each_call(TORCH.distributed.reduce_scatter_tensor, calls, out, given)
        # False: not along the last dimension, but by runs of elements.
        self.assert_each_call(
            TORCH.ops.symm_mem.reduce_scatter_out, calls, self.shared, self.group, False, torch_out
        )
        scatter = TORCH.ops.symm_mem._low_contention_reduce_scatter
        self.assert_each_call(scatter, calls, self.shared, "sum", self.group)
        self.assert_each_call(TORCH.ops._c10d_functional.wait_tensor, calls, scatter.return_value)

    def test_all_reduce_stays_in_place_where_it_was(self):
        rows = self.run_size("all-reduce", 1024)
        self.assertEqual(
            [(row["library"], row["shape"]["placement"]) for row in rows],
            [("nccl", "in"), ("torch-one-shot", "out"), ("torch-two-shot", "in")],
        )
        ops, out = TORCH.ops.symm_mem, self.made[512]
        self.assert_each_call(ops.one_shot_all_reduce_out, 5 + 40 + 1, self.shared, "sum", self.group, out)
        self.assert_each_call(ops.two_shot_all_reduce_, 5 + 40 + 1, self.shared, "sum", self.group)

    def test_fused_all_reduces_are_followed_by_a_kernel_and_checked_by_what_that_returns(self):
        fusion = mock.MagicMock()
        fusion.behind.side_effect = lambda sums: self.events.append(("behind", sums)) or "results"
        with mock.patch.object(peers_bench.peers_fusion, "Fusion", return_value=fusion) as made:
            (call,) = peers_plan.calls_of_rows("rms-norm", 2, 512, [2])
            self.bench.numbers = lambda seed, count: mock.MagicMock()
            self.bench.run(call)
        # One for all three contestants, whose kernel it is.
        self.assertEqual(made.call_count, 1)
        self.assertEqual(made.call_args[0][0], "rms-norm")
        rows = self.bench.lines
        self.assertEqual(
            [(row["kind"], row["library"], *map(row["shape"].get, ("name", "processes", "bytes", "count"))) for row in rows],
            [("fused", name, "fused-rms-norm-512", 2, 2048, 1024) for name in ("nccl", "torch-one-shot", "torch-two-shot")],
        )
        given, out = self.bench.fusions, self.made[1024]
        self.assertEqual(list(given), [call])
        self.assertEqual([one for one in self.events if one[0] == "wrong"], [("wrong", "results")] * 3)
        behind = [sums for what, sums, *_ in self.events if what == "behind"]
        self.assertEqual(len(behind), 3 * (5 + 40 + 1))
        self.assertIs(behind[46], out)
        self.assertIs(behind[-1], self.shared)

    def test_wrong_elements_of_fused_all_reduces_are_counted_by_their_kernels_expectation(self):
        bench = bench_of(1, 2)
        (call,) = peers_plan.calls_of_rows("bias", 2, 8, [1])
        bench.fusions[call] = fusion = mock.MagicMock()
        sums = bench.expected(call).tolist()
        self.assertIs(bench.wrong(call, "results"), fusion.wrong.return_value)
        (given, results), _ = fusion.wrong.call_args
        self.assertEqual((given.tolist(), results), (sums, "results"))

    def test_call_on_fresh_data_into_a_cleared_result_is_checked_by_what_it_returns(self):
        ops = TORCH.ops.symm_mem
        for collective, operation, cleared, returned in (
            ("all-reduce", "two_shot_all_reduce_", False, lambda: self.shared),
            ("reduce-scatter", "reduce_scatter_out", True, lambda: self.made[256]),
            ("reduce-scatter", "_low_contention_reduce_scatter", False, lambda: TORCH.ops._c10d_functional.wait_tensor()),
        ):
            with self.subTest(operation):
                self.setUp()
                out = mock.MagicMock()
                out.fill_.side_effect = lambda value: self.events.append("clear")
                TORCH.empty.side_effect = lambda elements, out=out, **_: self.made.setdefault(elements, out)
                measured = getattr(ops, operation)
                measured.side_effect = lambda *_: self.events.append("call")
                self.addCleanup(setattr, measured, "side_effect", None)
                with mock.patch.object(peers_plan, "contestants_of", return_value=[self.name_of(operation)]):
                    self.run_size(collective, 1024)
                at = self.events.index(("times", 40))
                clear = ["clear"] if cleared else []
                self.assertEqual(self.events[at + 1 :], [("fill", self.shared), *clear, "call", ("wrong", returned())])

    @staticmethod
    def name_of(operation):
        return {"two_shot_all_reduce_": "torch-two-shot", "reduce_scatter_out": "torch-reduce-scatter"}.get(
            operation, "torch-low-contention"
        )

    def test_time_is_that_of_a_call_and_of_the_batches_that_count(self):
        bench = bench_of(0, 1, warmup=1)
        TORCH.cuda.Event.return_value.elapsed_time.side_effect = [3.0, 1.0, 2.0]
        submit = mock.MagicMock()
        try:
            self.assertEqual(bench.times(submit, "stream", 5), [600.0, 200.0, 400.0])
        finally:
            TORCH.cuda.Event.return_value.elapsed_time.side_effect = None
        self.assertEqual((submit.call_count, bench.barrier.wait.call_count), (4, 4))

    def test_operation_that_pytorch_lacks_is_left_out_and_the_rest_is_measured(self):
        TORCH.ops.symm_mem.reduce_scatter_out.side_effect = AttributeError("no such operation\nand its trace")
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                rows = self.run_size("reduce-scatter", 1024)
        finally:
            TORCH.ops.symm_mem.reduce_scatter_out.side_effect = None
        self.assertEqual([row["library"] for row in rows], ["nccl", "torch-low-contention"])
        self.assertEqual(
            said.getvalue(), "peers_bench: torch-reduce-scatter, 1024 bytes, is left out: no such operation\n"
        )

    def test_nvlink_multicast_is_off_when_pytorch_is_imported(self):
        names = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS")
        with tempfile.TemporaryDirectory() as directory:
            distributed = os.path.join(directory, "torch", "distributed")
            network = os.path.join(directory, "torch", "nn")
            for folder in (os.path.join(distributed, "_symmetric_memory"), os.path.join(network, "functional")):
                os.makedirs(folder)
                open(os.path.join(folder, "__init__.py"), "w").close()
            for folder in (distributed, network):
                open(os.path.join(folder, "__init__.py"), "w").close()
            with open(os.path.join(directory, "torch", "__init__.py"), "w") as file:
                file.write(
                    "import json, os\n"
                    "bfloat16 = float16 = float32 = None\n"
                    f"print(json.dumps([os.environ.get(name) for name in {names}]))\n"
                )
            seen = subprocess.run(
                [sys.executable, "-B", "-c", "import peers_bench"],
                env=dict(os.environ, PYTHONPATH=os.pathsep.join((directory, BENCH)), **dict(zip(names, "101"))),
                stdout=subprocess.PIPE,
                check=True,
            )
        self.assertEqual(json.loads(seen.stdout), ["0", "1", "1"])


class Ranks:
    """Two ranks as threads, with the collective calls that the script makes besides those that it measures."""

    def __init__(self):
        self.met = threading.Barrier(2, timeout=20)
        self.thread = threading.local()
        self.slots = [None, None]
        TORCH.distributed.barrier = self.met.wait
        TORCH.distributed.all_reduce = self.all_reduce

    def rank(self):
        return self.thread.rank

    def all_reduce(self, tensor, op=None):
        if isinstance(tensor, mock.Mock):
            return  # the one that is measured
        self.slots[self.rank()] = tensor.values
        self.met.wait()
        columns = list(zip(*self.slots, strict=True))
        self.met.wait()
        tensor.values = [(op or sum)(column) for column in columns]

    def run(self, body):
        results = [None, None]

        def in_thread(rank):
            self.thread.rank = rank
            try:
                results[rank] = body(rank)
            except BaseException as error:
                self.met.abort()
                results[rank] = error

        threads = [threading.Thread(target=in_thread, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


class FailingRankTest(unittest.TestCase):
    """What fails on one rank only, or in one mode only, costs no more than the rows that it would have."""

    def setUp(self):
        for name, value in (("barrier", None), ("all_reduce", None)):
            before = getattr(TORCH.distributed, name)
            self.addCleanup(setattr, TORCH.distributed, name, before)
        TORCH.reset_mock()
        pretend_tensors()
        TORCH.empty.side_effect = lambda *_, **__: mock.MagicMock()
        self.ranks = Ranks()
        self.capturing = threading.local()
        self.addCleanup(setattr, TORCH.cuda, "graph", TORCH.cuda.graph)
        TORCH.cuda.graph = self.capture
        elapsed = TORCH.cuda.Event.return_value.elapsed_time
        elapsed.side_effect = lambda _: 1.0 + self.ranks.rank()
        self.addCleanup(setattr, elapsed, "side_effect", None)
        for patch in (mock.patch.dict(os.environ, MASTER_PORT=f"test{os.getpid()}"), mock.patch.object(peers, "LIMIT_S", 5)):
            patch.start()
            self.addCleanup(patch.stop)

    @contextlib.contextmanager
    def capture(self, graph, stream):
        self.capturing.now = True
        try:
            yield
        finally:
            self.capturing.now = False

    def is_capturing(self):
        return getattr(self.capturing, "now", False)

    def rows_of(self, failing):
        """The implementation and mode of each row, and what was said, where `failing` sees each two-shot call."""
        operation = TORCH.ops.symm_mem.two_shot_all_reduce_
        operation.side_effect = failing
        self.addCleanup(setattr, operation, "side_effect", None)

        def on(rank):
            bench = bench_of(rank, 2, warmup=1, repeats=2, mode="graph,eager")
            bench.barrier = peers_bench.Barrier(rank, 2)
            bench.fill = lambda _: None
            bench.wrong = lambda *_: rank + 1
            for call in peers_plan.calls_of("all-reduce", 2, 2, 1024, 2048, 2):
                bench.run(call)
            return bench.lines

        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            rows, others = self.ranks.run(on)
        self.assertEqual(rows, others)
        for row in rows:
            # Of two ranks the slower, and the wrong elements of both.
            self.assertEqual((row["median"], row["wrong"]), (2000 / 40, 3))
        return [(row["library"], row["shape"]["bytes"], row["shape"]["mode"]) for row in rows], said.getvalue()

    @staticmethod
    def all_but(*left_out):
        names = ("nccl", "torch-one-shot", "torch-two-shot")
        return [
            cell for cell in itertools.product((1024, 2048), names, ("graph", "eager")) if cell not in left_out
        ]

    def assert_left_out(self, failing, left_out, sentence):
        rows, said = self.rows_of(failing)
        self.assertEqual([(size, name, mode) for name, size, mode in rows], self.all_but(*left_out))
        self.assertEqual(said, sentence)

    def test_nothing_is_left_out_where_nothing_fails(self):
        self.assert_left_out(None, (), "")

    def test_operation_that_cannot_be_captured_is_measured_eagerly(self):
        def failing(*_):
            if self.is_capturing():
                raise RuntimeError("not in a graph")

        self.assert_left_out(
            failing,
            [(1024, "torch-two-shot", "graph"), (2048, "torch-two-shot", "graph")],
            "".join(
                f"peers_bench: torch-two-shot, {size} bytes in graph, is left out: not in a graph\n" for size in (1024, 2048)
            ),
        )

    def test_capture_that_fails_on_one_rank_is_given_up_by_both(self):
        failures = []

        def failing(*_):
            if self.is_capturing() and self.ranks.rank() == 1 and not failures:
                failures.append(1)
                raise RuntimeError("only here")

        self.assert_left_out(
            failing,
            [(1024, "torch-two-shot", "graph")],
            "peers_bench: torch-two-shot, 1024 bytes in graph, is left out: only here\n",
        )

    def test_batch_that_fails_on_one_rank_ends_the_wait_of_the_other(self):
        calls = []

        def failing(*_):
            if not self.is_capturing() and self.ranks.rank() == 0:
                calls.append(1)
                # Five calls before, one that is checked behind the graph, and a batch of 40.
                if len(calls) == 5 + 1 + 40 + 1:
                    raise RuntimeError("late")

        self.assert_left_out(
            failing,
            [(1024, "torch-two-shot", "eager")],
            "peers_bench: torch-two-shot, 1024 bytes in eager, is left out: late\n",
        )


if __name__ == "__main__":
    unittest.main()
