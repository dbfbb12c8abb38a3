#include "support/collective_case.h"

#include <gtest/gtest.h>

#include <cstring>

#include "call/call.h"
#include "support/gpu.h"
#include "support/group.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

constexpr uint8_t kUntouched = 0x5B;

// What a rank reads and writes, in parts of count elements, and which part of the larger one is the own one in place.
struct Shape {
  uint64_t send_parts;
  uint64_t recv_parts;
  uint64_t send_own;
  uint64_t recv_own;
};

Shape shape_of(int32_t collective, uint64_t rank, uint64_t world) {
  switch (collective) {
    case NVRAR_ALL_GATHER:
      return {1, world, 0, rank};
    case NVRAR_REDUCE_SCATTER:
      return {world, 1, rank, 0};
    case NVRAR_ALL_TO_ALL:
      return {world, world, 0, 0};
    default:
      return {1, 1, 0, 0};
  }
}

nvrar_status call(nvrar_comm* comm, uint64_t send, uint64_t recv, const CollectiveCase& c, uint64_t stream) {
  const auto [type, op] = c.reduction;
  switch (c.collective) {
    case NVRAR_ALL_REDUCE:
      return nvrar_all_reduce(comm, send, recv, c.count, type, op, c.algorithm, stream);
    case NVRAR_REDUCE:
      return nvrar_reduce(comm, send, recv, c.count, type, op, c.root, stream);
    case NVRAR_REDUCE_SCATTER:
      return nvrar_reduce_scatter(comm, send, recv, c.count, type, op, stream);
    case NVRAR_ALL_GATHER:
      return nvrar_all_gather(comm, send, recv, c.count, type, stream);
    case NVRAR_ALL_TO_ALL:
      return nvrar_all_to_all(comm, send, recv, c.count, type, stream);
    case NVRAR_BROADCAST:
      return nvrar_broadcast(comm, send, recv, c.count, type, c.root, stream);
    default:
      return nvrar_barrier(comm, stream);
  }
}

// What part `part` of the result is; null: not written.
const uint8_t* expected(const Pool& pool, const CollectiveCase& c, int rank, uint64_t part) {
  const uint64_t own_part = static_cast<uint64_t>(rank) * kPartShift;
  switch (c.collective) {
    case NVRAR_REDUCE:
      return rank == c.root ? pool.expected(c.first) : nullptr;
    case NVRAR_REDUCE_SCATTER:
      return pool.expected(c.first + own_part);
    case NVRAR_ALL_GATHER:
      return pool.input(static_cast<int>(part), c.first);
    case NVRAR_ALL_TO_ALL:
      return pool.input(static_cast<int>(part), c.first + own_part);
    case NVRAR_BROADCAST:
      return pool.input(c.root, c.first);
    default:
      return pool.expected(c.first);
  }
}

}  // namespace

std::string describe_case(const CollectiveCase& c) {
  nvrar_call record{};
  record.collective = c.collective;
  record.data_type = c.reduction.data_type;
  record.op = c.reduction.op;
  record.algorithm = c.algorithm;
  record.count = c.count;
  record.root = c.root;
  return describe(record) + " window " + std::to_string(c.first) + " offsets " + std::to_string(c.send_offset) + " " +
         std::to_string(c.recv_offset) + (c.in_place ? " in place" : "");
}

namespace {

// A call that fails is no fault of the check: the caller looks at *status.
void check_case(int rank, int world, nvrar_comm* comm, const Pool& pool, const CollectiveCase& c,
                nvrar_status* outcome) {
  const uint64_t size = element_bytes(c.reduction.data_type);
  const uint64_t bytes = c.count * size;
  const Shape shape = shape_of(c.collective, static_cast<uint64_t>(rank), static_cast<uint64_t>(world));
  const bool gives = c.collective != NVRAR_BROADCAST || rank == c.root;
  const bool takes = c.collective != NVRAR_REDUCE || rank == c.root;
  // In place the larger of the two holds both.
  const bool in_recv = c.in_place && takes && shape.recv_parts >= shape.send_parts;
  const bool in_send = c.in_place && gives && shape.send_parts > shape.recv_parts;
  GuardedBuffer send_buffer(bytes * shape.send_parts, c.send_offset * size);
  GuardedBuffer recv_buffer(bytes * shape.recv_parts, c.recv_offset * size);
  uint8_t* const send = in_recv ? recv_buffer.data() + shape.recv_own * bytes : send_buffer.data();
  uint8_t* const recv = in_send ? send_buffer.data() + shape.send_own * bytes : recv_buffer.data();
  std::memset(recv, kUntouched, bytes * shape.recv_parts);
  for (uint64_t part = 0; part < shape.send_parts && gives; ++part) {
    std::memcpy(send + part * bytes, pool.input(rank, c.first + part * kPartShift), bytes);
  }

  // Where nothing is read or written the address may be anything.
  Image send_image(rank, 0, &send_buffer);
  Image recv_image(rank, kImageRoomBytes / 2, &recv_buffer);
  const uint64_t from = in_recv ? recv_image.address(send) : send_image.address(send);
  const uint64_t to = in_send ? send_image.address(recv) : recv_image.address(recv);
  *outcome = settled(rank, comm, call(comm, gives ? from : 0, takes ? to : 0, c, stream_of(rank)));
  if (*outcome != NVRAR_OK) return;
  send_image.fetch();
  recv_image.fetch();
  count_checked_call();

  for (uint64_t part = 0; part < shape.recv_parts && takes; ++part) {
    ASSERT_EQ(difference(recv + part * bytes, expected(pool, c, rank, part), bytes), "")
        << "rank " << rank << " part " << part << ": " << describe_case(c);
  }
  for (uint64_t part = 0; part < shape.send_parts && gives; ++part) {
    if (in_recv || (in_send && part == shape.send_own)) continue;
    ASSERT_EQ(difference(send + part * bytes, pool.input(rank, c.first + part * kPartShift), bytes), "")
        << "the input changed on rank " << rank << ": " << describe_case(c);
  }
  ASSERT_TRUE(send_buffer.guards_intact() && recv_buffer.guards_intact())
      << "rank " << rank << ": " << describe_case(c);
}

}  // namespace

nvrar_status try_case(int rank, int world, nvrar_comm* comm, const Pool& pool, const CollectiveCase& c) {
  nvrar_status status = NVRAR_INTERNAL;
  check_case(rank, world, comm, pool, c, &status);
  return ::testing::Test::HasFatalFailure() ? NVRAR_INTERNAL : status;
}

void run_case(int rank, int world, nvrar_comm* comm, const Pool& pool, const CollectiveCase& c) {
  nvrar_status status = NVRAR_INTERNAL;
  check_case(rank, world, comm, pool, c, &status);
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(status, NVRAR_OK) << nvrar_last_error() << "; " << describe_case(c);
}

std::vector<int32_t> algorithms(int world, int ranks_per_node) {
  std::vector<int32_t> all = {NVRAR_ALGORITHM_ONE_SHOT};
  const bool nodes = ranks_per_node != 0 && ranks_per_node < world;
  if (!nodes || !on_gpu() || !linked_nodes()) all.push_back(NVRAR_ALGORITHM_TWO_SHOT);
  if (nodes) all.push_back(NVRAR_ALGORITHM_HIERARCHICAL);
  return all;
}

Pool make_pool(const Reduction& reduction, int world, int ranks_per_node, uint64_t seed) {
  const auto [type, op] = reduction;
  return Pool(type, op, world, kPoolElements, seed + static_cast<uint64_t>(type * 100 + op), ranks_per_node);
}

Pools::Pools(int world, int ranks_per_node, uint64_t seed) {
  for (const Reduction& reduction : reductions()) {
    pools_[{reduction.data_type, reduction.op}] =
        std::make_unique<Pool>(make_pool(reduction, world, ranks_per_node, seed));
  }
}

}  // namespace nvrar::test
