// All-reduces of large messages between linked nodes, which divide their sums among them (protocol.md 9).
#include <gtest/gtest.h>

#include <vector>

#include "plan/plan.h"
#include "protocol/ring_layout.h"
#include "support/collective_case.h"
#include "support/group.h"

namespace nvrar::test {
namespace {

class LargeSums : public ::testing::TestWithParam<TestTopology> {};

// Sums of floats in the one order, of every size of a partial sum; counts just above the limit, with a last run that is
// not whole, and of several launches; rings as small as they can be.
TEST_P(LargeSums, OfLinkedNodesAreThoseOfTheOneOrder) {
  const auto [world, ranks_per_node] = GetParam();
  const uint64_t least = protocol::min_ring_bytes(static_cast<uint32_t>(world), true);
  ThreadGroup roomy(world, {.timeout_ns = 60'000 * kMs, .ranks_per_node = ranks_per_node, .linked = true});
  ThreadGroup tight(
      world, {.ring_bytes = least, .timeout_ns = 60'000 * kMs, .ranks_per_node = ranks_per_node, .linked = true});
  uint64_t number = 0;
  for (const Reduction& reduction :
       {Reduction{NVRAR_FLOAT32, NVRAR_SUM}, Reduction{NVRAR_BFLOAT16, NVRAR_SUM}, Reduction{NVRAR_FLOAT16, NVRAR_AVG},
        Reduction{NVRAR_FLOAT64, NVRAR_SUM}, Reduction{NVRAR_INT8, NVRAR_SUM}, Reduction{NVRAR_FLOAT32, NVRAR_MIN}}) {
    if (!runs_case(++number, 0)) continue;
    const uint64_t size = element_bytes(reduction.data_type);
    const uint64_t limit = kLinkedPlanLimits.hierarchical_one_shot_bytes / size;
    const Pool pool(reduction.data_type, reduction.op, world, 2 * limit + 100, number, ranks_per_node);
    for (ThreadGroup* group : {&roomy, &tight}) {
      for (const uint64_t count : {limit + 1, limit + 1000 / size + 3, 2 * limit + 61}) {
        CollectiveCase c{NVRAR_ALL_REDUCE, reduction, NVRAR_ALGORITHM_AUTO, count, number % 30};
        c.send_offset = number % 3;
        c.recv_offset = count % 5;
        c.in_place = count % 2 == number % 2;
        group->run([&](int rank, nvrar_comm* comm) { run_case(rank, world, comm, pool, c); });
        if (HasFailure()) return;
      }
    }
  }
}

// Even, uneven and single ranks in a node; three nodes and eight, and a group of more ranks than a node may have.
INSTANTIATE_TEST_SUITE_P(Nodes, LargeSums,
                         ::testing::Values(TestTopology{6, 2}, TestTopology{7, 3}, TestTopology{3, 1},
                                           TestTopology{8, 1}, TestTopology{11, 4}));

}  // namespace
}  // namespace nvrar::test
