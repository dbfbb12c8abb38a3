// One collective call with its data, from any rank's side: fills its buffers from a pool, calls, and compares every
// byte.
#ifndef NVRAR_TEST_SUPPORT_COLLECTIVE_CASE_H
#define NVRAR_TEST_SUPPORT_COLLECTIVE_CASE_H

#include <nvrar.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "support/pool.h"

namespace nvrar::test {

struct CollectiveCase {
  int32_t collective = NVRAR_ALL_REDUCE;
  Reduction reduction{NVRAR_FLOAT32, NVRAR_SUM};  // the operator is ignored if the collective has none
  int32_t algorithm = NVRAR_ALGORITHM_AUTO;
  uint64_t count = 0;
  uint64_t first = 0;        // start of the window in the pool
  uint64_t send_offset = 0;  // in elements, from a boundary of 64 bytes
  uint64_t recv_offset = 0;
  bool in_place = false;
  int root = 0;
};

// The distance in the pool between the parts of one call, chosen so that no two parts are alike.
constexpr uint64_t kPartShift = 7;
constexpr uint64_t kPoolElements = 8192;
constexpr uint64_t kWindowMax = kPoolElements - 8 * kPartShift;  // count + first

// Asserts that the result is exact, and that the input and the memory around the buffers are unchanged.
void run_case(int rank, int world, nvrar_comm* comm, const Pool& pool, const CollectiveCase& c);

// Does the same for a call that may fail; returns its status, or NVRAR_INTERNAL if anything else was wrong.
nvrar_status try_case(int rank, int world, nvrar_comm* comm, const Pool& pool, const CollectiveCase& c);

std::string describe_case(const CollectiveCase& c);

// The algorithms that are possible in a group; AUTO is one of them.
std::vector<int32_t> algorithms(int world, int ranks_per_node);

Pool make_pool(const Reduction& reduction, int world, int ranks_per_node, uint64_t seed);

// A pool for every reduction of a group, for tests that alternate between them.
class Pools {
 public:
  Pools(int world, int ranks_per_node, uint64_t seed);
  const Pool& of(const Reduction& reduction) const { return *pools_.at({reduction.data_type, reduction.op}); }

 private:
  std::map<std::pair<int32_t, int32_t>, std::unique_ptr<Pool>> pools_;
};

struct TestTopology {
  int world;
  int ranks_per_node;  // 0: one node
};
inline void PrintTo(const TestTopology& topology, std::ostream* out) {
  *out << topology.world << " ranks, " << topology.ranks_per_node << " a node";
}
// Groups in one node, even nodes, uneven nodes, nodes of one rank. Fewer of them under a sanitizer, which is slow with
// many ranks on few cores.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr TestTopology kOneNode[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {8, 0}};
constexpr TestTopology kNodes[] = {{8, 4}, {5, 3}, {4, 2}, {4, 1}, {2, 1}};
#else
constexpr TestTopology kOneNode[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}};
constexpr TestTopology kNodes[] = {{8, 4}, {8, 2}, {6, 2}, {5, 3}, {4, 2}, {3, 2},
                                   {4, 1}, {7, 1}, {8, 7}, {7, 3}, {2, 1}};
#endif

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_COLLECTIVE_CASE_H
