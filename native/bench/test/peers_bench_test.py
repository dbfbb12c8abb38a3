"""That the controls on GPUs are measured at the sizes and numbers of calls of nvrar_bench, and by which operations, without PyTorch."""

import os
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

TORCH = mock.MagicMock()
for module in ("torch", "torch.distributed", "torch.distributed._symmetric_memory"):
    sys.modules[module] = mock.MagicMock()
sys.modules["torch"] = TORCH
TORCH.distributed = sys.modules["torch.distributed"]

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

    def test_bus_bandwidth_has_the_factors_of_nccl_tests(self):
        factors = {name: peers_plan.Call(name, 4, 1).bus_factor for name in peers_plan.CONTESTANTS}
        self.assertEqual(factors, {"all-reduce": 1.5, "all-gather": 0.75, "reduce-scatter": 0.75})

    def test_one_shot_is_left_out_beyond_8_mb_and_nothing_multicasts(self):
        self.assertIn("torch-one-shot", peers_plan.contestants_of("all-reduce", 8 * MIB))
        self.assertEqual(peers_plan.contestants_of("all-reduce", 16 * MIB), ["nccl", "torch-two-shot"])
        self.assertEqual(peers_plan.contestants_of("all-gather", 64 * MIB), ["nccl", "torch-low-contention"])
        self.assertEqual(
            peers_plan.contestants_of("reduce-scatter", 64 * MIB), ["nccl", "torch-reduce-scatter", "torch-low-contention"]
        )

    def test_sizes_have_the_units_of_the_command_line(self):
        self.assertEqual([peers_plan.number_of_bytes(text) for text in ("64", "8K", "64M")], [64, 8192, 64 * MIB])


class PeersBenchTest(unittest.TestCase):
    """Notes which operation each control calls and the row that it adds, with times and results that are given."""

    def setUp(self):
        TORCH.reset_mock()
        TORCH.distributed.reset_mock()
        TORCH.empty.side_effect = lambda *_, **__: mock.MagicMock()
        bench = self.bench = peers_bench.Bench.__new__(peers_bench.Bench)
        bench.options = types.SimpleNamespace(type="bfloat16", iters=0, repeats=3, mode="graph")
        bench.rank, bench.world, bench.device, bench.element_bytes = 0, 2, "cuda:0", 2
        bench.type = TORCH.bfloat16
        bench.rows, bench.barrier, bench.fill = [], mock.MagicMock(), mock.MagicMock()
        bench.times = lambda submit, stream, iterations: [1.0, 2.0, 4.0]
        bench.wrong = lambda call, result: 7

    def run_size(self, collective, size):
        (call,) = peers_plan.calls_of(collective, 2, 2, size, size, 2)
        self.bench.run(call)
        operations = [str(one) for one in TORCH.ops.symm_mem.mock_calls + TORCH.distributed.mock_calls]
        self.assertFalse([one for one in operations if "multimem" in one])
        return [row.split(",") for row in self.bench.rows]

    def test_all_gather_is_measured_out_of_place_by_nccl_and_by_copies(self):
        rows = self.run_size("all-gather", 64 << 20)
        for name, row in zip(("nccl", "torch-low-contention"), rows, strict=True):
            self.assertEqual(row[:5], [name, "all-gather", "2", str(64 << 20), str(16 << 20)])
        for row in rows:
            self.assertEqual(row[6], "none")
            self.assertEqual((row[9], row[10], row[13], row[16], row[19]), ("out", "2.0000", "7", "5", "graph"))
            self.assertEqual(float(row[12]) * 2, float(row[11]))
        # The five calls before, those of the graph, and the one that is checked.
        self.assertEqual(TORCH.distributed.all_gather_into_tensor.call_count, 5 + 5 + 1)
        self.assertEqual(TORCH.ops.symm_mem._low_contention_all_gather.call_count, 5 + 5 + 1)
        self.assertEqual(TORCH.ops._c10d_functional.wait_tensor.call_count, 5 + 5 + 1)

    def test_reduce_scatter_is_measured_by_nccl_and_two_operations_of_pytorch(self):
        rows = self.run_size("reduce-scatter", 1024)
        self.assertEqual([row[0] for row in rows], ["nccl", "torch-reduce-scatter", "torch-low-contention"])
        for operation in (
            TORCH.distributed.reduce_scatter_tensor,
            TORCH.ops.symm_mem.reduce_scatter_out,
            TORCH.ops.symm_mem._low_contention_reduce_scatter,
        ):
            self.assertEqual(operation.call_count, 5 + 40 + 1)

    def test_all_reduce_stays_in_place_where_it_was(self):
        rows = self.run_size("all-reduce", 1024)
        self.assertEqual(
            [(row[0], row[9]) for row in rows],
            [("nccl", "in"), ("torch-one-shot", "out"), ("torch-two-shot", "in")],
        )

    def test_operation_that_pytorch_lacks_is_left_out_and_the_rest_is_measured(self):
        TORCH.ops.symm_mem.reduce_scatter_out.side_effect = AttributeError("no such operation")
        try:
            with mock.patch("sys.stderr"):
                rows = self.run_size("reduce-scatter", 1024)
        finally:
            TORCH.ops.symm_mem.reduce_scatter_out.side_effect = None
        self.assertEqual([row[0] for row in rows], ["nccl", "torch-low-contention"])

    def test_nvlink_multicast_is_off_before_pytorch_is_imported(self):
        names = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS")
        self.assertEqual([os.environ[name] for name in names], ["0", "1", "1"])


if __name__ == "__main__":
    unittest.main()
