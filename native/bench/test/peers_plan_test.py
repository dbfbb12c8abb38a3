"""That the controls on GPUs are measured at the sizes and numbers of calls of nvrar_bench, and which there are."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

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


if __name__ == "__main__":
    unittest.main()
