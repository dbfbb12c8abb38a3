// Fuzzes the arguments of collectives, of fused all-reduces, of top-ks and of batches: a call that passes the checks
// accesses only memory that the caller passed, and its plan stays within the rings.
#include <fuzzer/FuzzedDataProvider.h>
#include <nvrar.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "call/batch.h"
#include "call/call.h"
#include "call/fusion.h"
#include "call/top_k.h"
#include "common/error.h"
#include "plan/plan.h"
#include "property.h"
#include "support/launch_fits.h"

namespace nvrar::fuzz {
namespace {

using Wide = unsigned __int128;  // no sum of addresses wraps in it
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::Topology;

constexpr Wide kAddresses = Wide{1} << 64;

// Around the places where something begins to differ.
uint64_t number(FuzzedDataProvider& input) {
  switch (input.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return input.ConsumeIntegralInRange<uint64_t>(0, 4096);
    case 1:
      return ~uint64_t{0} - input.ConsumeIntegralInRange<uint64_t>(0, 4096);
    case 2:
      return (uint64_t{1} << input.ConsumeIntegralInRange(0, 63)) + input.ConsumeIntegralInRange<uint64_t>(0, 16) - 8;
    default:
      return input.ConsumeIntegral<uint64_t>();
  }
}

int32_t code(FuzzedDataProvider& input, int32_t last) {
  return input.ConsumeProbability<float>() < 0.95F ? input.ConsumeIntegralInRange(-1, last + 1)
                                                   : input.ConsumeIntegral<int32_t>();
}

bool meet(Wide a, Wide a_bytes, Wide b, Wide b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

void require_memory(const Call& call, uint32_t rank, uint32_t world) {
  if (call.collective == NVRAR_BARRIER || call.count == 0) return;
  const bool many_sent = call.collective == NVRAR_REDUCE_SCATTER || call.collective == NVRAR_ALL_TO_ALL;
  const bool many_received = call.collective == NVRAR_ALL_GATHER || call.collective == NVRAR_ALL_TO_ALL;
  const bool root = call.root == static_cast<int32_t>(rank);
  const bool sends = call.collective != NVRAR_BROADCAST || root;
  const bool receives = call.collective != NVRAR_REDUCE || root;
  const Wide part = Wide{call.count} * element_bytes(call.data_type);
  const Wide sent = sends ? part * (many_sent ? world : 1) : 0;
  const Wide received = receives ? part * (many_received ? world : 1) : 0;
  require(sent == 0 || (call.send != 0 && call.send + sent < kAddresses + 1), "send is memory");
  require(received == 0 || (call.recv != 0 && call.recv + received < kAddresses + 1), "recv is memory");
  const uint64_t size = element_bytes(call.data_type);
  require(sent == 0 || call.send % size == 0, "send is aligned to its elements");
  require(received == 0 || call.recv % size == 0, "recv is aligned to its elements");
  if (sent == 0 || received == 0 || !meet(call.send, sent, call.recv, received)) return;
  const Wide send_place = Wide{call.send} + (many_sent && !many_received ? part * rank : 0);
  const Wide recv_place = Wide{call.recv} + (many_received && !many_sent ? part * rank : 0);
  require(send_place == recv_place, "buffers that overlap are in place");
}

void require_plan(const Call& call, const RingLayout& layout, const TuningTable& tuning) {
  const PlanLimits& limits =
      layout.hops() >= kLinkedPlanLimits.one_hop_areas && call.count % 2 == 0 ? kLinkedPlanLimits : kCpuPlanLimits;
  const Plan plan = make_plan(call, layout, tuning, limits);
  if (layout.topology.world == 1 || call.collective == NVRAR_BARRIER) return;
  require(plan.elements_per_launch > 0, "a launch carries something");
  require(Wide{plan.launches} * plan.elements_per_launch >= call.count, "the launches carry all elements");
  require(plan.launches == 0 || Wide{plan.launches - 1} * plan.elements_per_launch < call.count, "no launch is empty");
  require(test::launch_fits(plan, call, layout, limits), "a launch fits");
}

RingLayout layout_of(FuzzedDataProvider& input) {
  const auto world = input.ConsumeIntegralInRange<uint32_t>(1, protocol::kMaxRanks);
  const Topology topology{world, input.ConsumeIntegralInRange<uint32_t>(1, world)};
  const uint64_t least = topology.nodes() > 1 ? protocol::kMinRingBytesOfNodes : protocol::kMinRingBytes;
  const uint64_t pages = input.ConsumeIntegralInRange<uint64_t>(least / 4096, 1024);
  return {pages * 4096, topology};
}

void try_call(FuzzedDataProvider& input) {
  const RingLayout layout = layout_of(input);
  const uint32_t world = layout.topology.world;
  const auto rank = input.ConsumeIntegralInRange<uint32_t>(0, world - 1);
  Call call;
  call.collective = input.ConsumeIntegralInRange<int32_t>(NVRAR_ALL_REDUCE, NVRAR_ALL_TO_ALL);
  const bool reduces =
      call.collective == NVRAR_ALL_REDUCE || call.collective == NVRAR_REDUCE || call.collective == NVRAR_REDUCE_SCATTER;
  const bool rooted = call.collective == NVRAR_BROADCAST || call.collective == NVRAR_REDUCE;
  call.count = number(input);
  call.data_type = code(input, NVRAR_BFLOAT16);
  call.op = reduces ? code(input, NVRAR_AVG) : kNoOp;
  call.root = rooted ? code(input, protocol::kMaxRanks) : kNoRoot;
  call.algorithm = call.collective == NVRAR_ALL_REDUCE ? code(input, NVRAR_ALGORITHM_HIERARCHICAL) : 0;
  call.send = number(input);
  call.recv = input.ConsumeBool() ? number(input)
                                  : call.send + static_cast<uint64_t>(input.ConsumeIntegralInRange(-4096, 4096));
  try {
    check_call(call, rank, layout.topology);
  } catch (const Error& error) {
    require(error.status() == NVRAR_INVALID_ARGUMENT, "a bad call is the caller's mistake");
    require_sentence(error.what());
    return;
  }
  require_memory(call, rank, world);
  if (call.count != 0) require_plan(call, layout, TuningTable());
}

// The buffers of a fused all-reduce; the first three are read, the others written.
constexpr uint64_t nvrar_fused_all_reduce::*kBuffers[] = {
    &nvrar_fused_all_reduce::input,  &nvrar_fused_all_reduce::residual,     &nvrar_fused_all_reduce::weight,
    &nvrar_fused_all_reduce::output, &nvrar_fused_all_reduce::residual_out, &nvrar_fused_all_reduce::squares};
constexpr size_t kFirstWritten = 3;

// 0: the form does not use it.
Wide bytes_of(const nvrar_fused_all_reduce& call, uint64_t nvrar_fused_all_reduce::*buffer) {
  const bool norm = call.form == NVRAR_FUSION_RMS_NORM || call.form == NVRAR_FUSION_RMS_FOLD;
  const Wide row = Wide{call.hidden} * element_bytes(call.data_type);
  if (buffer == &nvrar_fused_all_reduce::residual) return call.form == NVRAR_FUSION_BIAS ? 0 : row * call.rows;
  if (buffer == &nvrar_fused_all_reduce::weight) return call.form == NVRAR_FUSION_RESIDUAL ? 0 : row;
  if (buffer == &nvrar_fused_all_reduce::residual_out) return norm ? row * call.rows : 0;
  if (buffer == &nvrar_fused_all_reduce::squares) {
    return call.form == NVRAR_FUSION_RMS_FOLD ? (row + 127) / 128 * sizeof(float) * call.rows : 0;
  }
  return row * call.rows;
}

void require_memory(const nvrar_fused_all_reduce& call) {
  for (size_t i = 0; i < std::size(kBuffers); ++i) {
    const uint64_t one = call.*kBuffers[i];
    const Wide bytes = bytes_of(call, kBuffers[i]);
    require(bytes == 0 ? one == 0 : one != 0 && one % 16 == 0, "a buffer is there and aligned, or not used");
    require(one + bytes < kAddresses + 1, "a buffer is memory");
    for (size_t j = 0; i >= kFirstWritten && j < i; ++j) {
      const uint64_t other = call.*kBuffers[j];
      const Wide other_bytes = bytes_of(call, kBuffers[j]);
      const bool both_rows = kBuffers[i] != &nvrar_fused_all_reduce::squares && j < kFirstWritten &&
                             kBuffers[j] != &nvrar_fused_all_reduce::weight;
      require(bytes == 0 || other_bytes == 0 || (both_rows && one == other) || !meet(one, bytes, other, other_bytes),
              "what is written is at an input or overlaps nothing");
    }
  }
}

void try_fused(FuzzedDataProvider& input) {
  nvrar_fused_all_reduce call{};
  call.size = sizeof call;
  call.form = code(input, NVRAR_FUSION_RMS_FOLD);
  call.data_type = code(input, NVRAR_BFLOAT16);
  call.algorithm = code(input, NVRAR_ALGORITHM_TWO_SHOT);
  call.rows = static_cast<uint32_t>(number(input));
  call.hidden =
      input.ConsumeBool() ? static_cast<uint32_t>(number(input)) : input.ConsumeIntegralInRange<uint32_t>(0, 2050) * 8;
  call.eps = input.ConsumeBool() ? input.ConsumeFloatingPoint<float>() : 0;
  uint64_t last = 4096;
  for (const auto buffer : kBuffers) {
    const bool used = bytes_of(call, buffer) != 0;
    if (used == (input.ConsumeIntegralInRange(0, 31) == 31)) continue;  // seldom what the form does not use
    last = input.ConsumeBool() ? number(input) : last + input.ConsumeIntegralInRange<uint64_t>(0, 4096) * 16;
    call.*buffer = last;
  }
  try {
    const Fusion fusion = fusion_of(call);
    check_call(fused_call(call, fusion), 0, {2, 2});
  } catch (const Error& error) {
    require(error.status() == NVRAR_INVALID_ARGUMENT, "a bad fused call is the caller's mistake");
    require_sentence(error.what());
    return;
  }
  require(call.hidden != 0 && call.hidden % 8 == 0 && call.hidden <= NVRAR_MAX_HIDDEN, "rows are as long as may be");
  require(std::isfinite(call.eps) && call.eps >= 0, "eps is a number");
  if (call.rows != 0) require_memory(call);
}

void try_top_k(FuzzedDataProvider& input) {
  nvrar_selection given{};
  given.size = sizeof given;
  given.data_type = code(input, NVRAR_BFLOAT16);
  given.rows = static_cast<uint32_t>(number(input));
  given.k = input.ConsumeBool() ? input.ConsumeIntegralInRange<uint32_t>(0, NVRAR_MAX_TOP_K + 1)
                                : static_cast<uint32_t>(number(input));
  given.columns = number(input);
  given.first_index = number(input);
  uint64_t last = 4096;
  for (uint64_t* const address : {&given.input, &given.values, &given.indices}) {
    last = input.ConsumeBool() ? number(input) : last + input.ConsumeIntegralInRange<uint64_t>(0, 4096) * 16;
    *address = last;
  }
  try {
    (void)checked_top_k(given);
  } catch (const Error& error) {
    require(error.status() == NVRAR_INVALID_ARGUMENT, "a bad top-k is the caller's mistake");
    require_sentence(error.what());
    return;
  }
  require(given.k >= 1 && given.k <= NVRAR_MAX_TOP_K, "k is as large as may be");
  require(Wide{given.first_index} + given.columns <= Wide{1} << 31, "indices are int32");
  if (given.rows == 0) return;
  const Wide places = Wide{given.rows} * given.k;
  const Wide size = element_bytes(given.data_type);
  require(size == 2 || size == 4, "the elements are floats");
  const std::pair<uint64_t, Wide> buffers[] = {{given.input, Wide{given.rows} * given.columns * size},
                                               {given.values, given.values == 0 ? 0 : places * size},
                                               {given.indices, places * sizeof(int32_t)}};
  for (const auto& [address, bytes] : buffers) {
    require(bytes == 0 || (address != 0 && address + bytes < kAddresses + 1), "a buffer is memory");
    for (const auto& [other, other_bytes] : buffers) {
      if (&other == &address || bytes == 0 || other_bytes == 0) continue;
      require(!meet(address, bytes, other, other_bytes), "no buffers overlap");
    }
  }
}

void try_batch(FuzzedDataProvider& input) {
  const auto world = input.ConsumeIntegralInRange<uint32_t>(1, protocol::kMaxRanks);
  const auto rank = input.ConsumeIntegralInRange<uint32_t>(0, world - 1);
  std::vector<nvrar_transfer> transfers(input.ConsumeIntegralInRange<size_t>(0, 8));
  for (size_t i = 0; i < transfers.size(); ++i) {
    nvrar_transfer& transfer = transfers[i];
    transfer.size = sizeof transfer;
    transfer.kind = input.ConsumeProbability<float>() < 0.9F ? NVRAR_SEND + input.ConsumeBool() : code(input, 9);
    transfer.peer = code(input, static_cast<int32_t>(world) - 1);
    transfer.count = number(input);
    transfer.data_type = code(input, NVRAR_BFLOAT16);
    transfer.address =
        i == 0 || input.ConsumeBool() ? number(input) : transfers[i - 1].address + input.ConsumeIntegral<uint16_t>();
  }
  try {
    BatchRoom room;
    check_batch(transfers.data(), static_cast<uint32_t>(transfers.size()), rank, world, &room);
  } catch (const Error& error) {
    require(error.status() == NVRAR_INVALID_ARGUMENT, "a bad batch is the caller's mistake");
    require_sentence(error.what());
    return;
  }
  size_t own_sends = 0;
  size_t own_recvs = 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const nvrar_transfer& one = transfers[i];
    const Wide bytes = Wide{one.count} * element_bytes(one.data_type);
    require(one.peer >= 0 && one.peer < static_cast<int32_t>(world), "a transfer is with a rank");
    require(bytes == 0 || (one.address != 0 && one.address + bytes < kAddresses + 1), "a transfer's buffer is memory");
    if (one.peer == static_cast<int32_t>(rank)) ++(one.kind == NVRAR_SEND ? own_sends : own_recvs);
    for (size_t j = 0; j < i && bytes != 0; ++j) {
      const nvrar_transfer& before = transfers[j];
      const Wide before_bytes = Wide{before.count} * element_bytes(before.data_type);
      const bool written = one.kind == NVRAR_RECV || before.kind == NVRAR_RECV;
      require(!written || before_bytes == 0 || !meet(one.address, bytes, before.address, before_bytes),
              "what is received into is touched by nothing else");
    }
  }
  require(own_sends == own_recvs, "a transfer to oneself has both ends");
}

}  // namespace
}  // namespace nvrar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      nvrar::fuzz::try_batch(input);
      break;
    case 2:
      nvrar::fuzz::try_fused(input);
      break;
    case 4:
      nvrar::fuzz::try_top_k(input);
      break;
    default:
      nvrar::fuzz::try_call(input);
      break;
  }
  return 0;
}
