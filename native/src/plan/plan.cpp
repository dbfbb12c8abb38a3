#include "plan/plan.h"

#include <algorithm>

#include "common/error.h"
#include "plan/crossing_shape.h"
#include "plan/gpu_limits.h"
#include "protocol/slices.h"

namespace nvrar {
namespace {

using protocol::EpochPacket;
using protocol::PacketKind;
using protocol::RingLayout;
using protocol::SentinelPacket;
using protocol::Topology;

int32_t built_in_choice(const Call& call, uint64_t bytes, const Topology& topology, const PlanLimits& limits) noexcept {
  const auto& one_shot_bytes = call.fusion == nullptr ? limits.one_shot_bytes : limits.fused_one_shot_bytes;
  // In nodes of one rank each, hierarchical would send a rank's whole message to every other one.
  const bool in_nodes = topology.is_large() || (!topology.is_one_node() && topology.largest > 1);
  const bool may_be_one_shot = !topology.is_large() && (!in_nodes || limits.one_shot_in_nodes);
  if (may_be_one_shot && bytes <= one_shot_bytes[topology.world]) return NVRAR_ALGORITHM_ONE_SHOT;
  return in_nodes ? NVRAR_ALGORITHM_HIERARCHICAL : NVRAR_ALGORITHM_TWO_SHOT;
}

int32_t choice_of(const Call& call, const nvrar_tuning_rule* rule, uint64_t bytes, const Topology& topology,
                  const PlanLimits& limits) noexcept {
  if (call.collective != NVRAR_ALL_REDUCE) return NVRAR_ALGORITHM_AUTO;
  if (call.algorithm != NVRAR_ALGORITHM_AUTO) return call.algorithm;
  return rule != nullptr ? rule->algorithm : built_in_choice(call, bytes, topology, limits);
}

TunedShape tuned_shape_of(const nvrar_tuning_rule* rule) noexcept {
  if (rule == nullptr) return {};
  return {.blocks = rule->blocks, .threads = rule->threads, .tiles = rule->tiles};
}

Algorithm algorithm_of(int32_t collective, int32_t choice) noexcept {
  switch (collective) {
    case NVRAR_REDUCE:
      return Algorithm::kReduce;
    case NVRAR_REDUCE_SCATTER:
      return Algorithm::kReduceScatter;
    case NVRAR_ALL_GATHER:
      return Algorithm::kAllGather;
    case NVRAR_ALL_TO_ALL:
      return Algorithm::kAllToAll;
    case NVRAR_BROADCAST:
      return Algorithm::kBroadcast;
    case NVRAR_BARRIER:
      return Algorithm::kBarrier;
    default:
      break;
  }
  if (choice == NVRAR_ALGORITHM_TWO_SHOT) return Algorithm::kTwoShot;
  return choice == NVRAR_ALGORITHM_HIERARCHICAL ? Algorithm::kHierarchical : Algorithm::kOneShot;
}

// Of a hierarchical all-reduce. A launch of the two-shot fits whatever areas fit one of the other.
Algorithm between_nodes(uint64_t bytes, const Topology& topology, const PlanLimits& limits) noexcept {
  const bool divides = topology.nodes() > 2 && !topology.has_many_nodes() && bytes > limits.hierarchical_one_shot_bytes;
  return divides ? Algorithm::kHierarchicalTwoShot : Algorithm::kHierarchical;
}

PacketKind kind_of(Algorithm algorithm, const Call& call, uint64_t bytes, const PlanLimits& limits) noexcept {
  if (call.op == kNoOp) return limits.move_packets;
  const bool small = bytes <= limits.epoch_reduction_bytes && algorithm != Algorithm::kTwoShot &&
                     algorithm != Algorithm::kHierarchical && algorithm != Algorithm::kHierarchicalTwoShot;
  return small ? PacketKind::kEpoch : element_type(call.data_type).sum_packets;
}

uint64_t runs_per_launch(Algorithm algorithm, PacketKind kind, int32_t data_type, const RingLayout& layout,
                         const PlanLimits& limits) noexcept {
  const uint64_t area_runs = layout.area_runs(kind);
  const uint64_t two_phase_runs = std::min(
      area_runs, std::max<uint64_t>(limits.two_phase_area_bytes / protocol::kPacketBytes / protocol::kRunPackets,
                                    layout.topology.world));
  switch (algorithm) {
    case Algorithm::kTwoShot:
      return protocol::TwoShotRuns{layout.topology}.runs_that_fit(two_phase_runs);
    case Algorithm::kHierarchical:
      return protocol::HierarchicalRuns{layout.topology, element_type(data_type).partial_parts}.runs_that_fit(
          two_phase_runs);
    case Algorithm::kHierarchicalTwoShot:
      return protocol::HierarchicalTwoShotRuns{{layout.topology, element_type(data_type).partial_parts}}.runs_that_fit(
          two_phase_runs);
    default:
      return protocol::FlatRuns{layout.topology}.runs_that_fit(area_runs * limits.one_hop_areas);
  }
}

cuda::KernelId kernel_of(const Call& call, Algorithm algorithm, const Topology& topology, bool crosses = false) {
  const uint64_t bytes = call.count * element_bytes(call.data_type);
  const bool aligned = (call.send | call.recv | bytes) % protocol::kPacketBytes == 0;
  return cuda::kernel_of(
      {algorithm, call.data_type, call.op, topology, call.fusion == nullptr ? 0 : call.fusion->form, aligned, crosses});
}

RowShape row_shape(const Call& call, Algorithm algorithm, const RingLayout& layout, const cuda::GpuFacts& gpu) {
  constexpr uint32_t kRunBytes = SentinelPacket::kRunBytes;
  const uint32_t tile_bytes = algorithm == Algorithm::kTwoShot ? layout.topology.world * kRunBytes : kRunBytes;
  return row_shape_of(*call.fusion, element_bytes(call.data_type), tile_bytes, layout,
                      cuda::kernel_shape(kernel_of(call, algorithm, layout.topology), gpu),
                      {.resident = gpu.most_blocks, .single = gpu.most_blocks_in_order},
                      {gpu.most_in_cluster, cuda::kMostClusterParts, gpu.most_blocks_in_order == gpu.most_blocks});
}

[[noreturn]] void refuse_row(uint64_t row_bytes, const RingLayout& layout) {
  throw Error(NVRAR_INVALID_ARGUMENT, "a row of " + std::to_string(row_bytes) + " bytes of " +
                                          std::to_string(layout.topology.world) +
                                          " ranks does not fit into ring_bytes " + std::to_string(layout.ring_bytes));
}

void give_rows(Plan* plan, const Call& call, const RingLayout& layout, const cuda::GpuFacts& gpu) {
  const Topology& topology = layout.topology;
  if (topology.nodes() > 1) {
    throw Error(NVRAR_INVALID_ARGUMENT,
                "a fused all-reduce on GPUs of one host needs all ranks in one node, and this group has " +
                    std::to_string(topology.nodes()));
  }
  RowShape& rows = plan->rows;
  rows = row_shape(call, plan->algorithm, layout, gpu);
  // In a small share of a GPU, or with long rows, the blocks of a one-shot may have to repeat. Then a two-shot is
  // faster, whose blocks have more of a row, unless it takes more launches. Between two ranks it never is.
  if (plan->built_in && plan->algorithm == Algorithm::kOneShot && topology.world > 2 && !rows.block.single) {
    const RowShape two_shot = row_shape(call, Algorithm::kTwoShot, layout, gpu);
    if (two_shot.turns() < rows.turns() && two_shot.launches() <= rows.launches()) {
      rows = two_shot;
      plan->algorithm = Algorithm::kTwoShot;
      plan->choice = NVRAR_ALGORITHM_TWO_SHOT;
    }
  }
  if (rows.rows_per_launch == 0 && rows.rows != 0) refuse_row(rows.row_bytes, layout);
  plan->elements_per_launch = uint64_t{rows.rows_per_launch} * rows.row_bytes / element_bytes(call.data_type);
  plan->launches = rows.launches();
}

// Of a fused all-reduce that crosses each launch has whole rows, which the one behind it finishes.
void give_whole_rows(Plan* plan, const Call& call, const RingLayout& layout, uint64_t crossing_bytes) {
  const uint32_t hidden = call.fusion->hidden;
  plan->elements_per_launch = std::min(plan->elements_per_launch, crossing_bytes / element_bytes(call.data_type));
  if (plan->elements_per_launch < hidden) refuse_row(uint64_t{hidden} * element_bytes(call.data_type), layout);
  plan->elements_per_launch = plan->elements_per_launch / hidden * hidden;
  plan->launches = (call.count + plan->elements_per_launch - 1) / plan->elements_per_launch;
}

void give_crossing_shapes(Plan* plan, const Call& call, const Topology& topology, const KernelShape& kernel,
                          uint32_t most_blocks, uint32_t proxy_threads) noexcept {
  const uint64_t size = call.collective == NVRAR_BARRIER ? 0 : element_bytes(call.data_type);
  const uint32_t parts = call.op == kNoOp ? 0 : element_type(call.data_type).partial_parts;
  const auto shape = [&](uint64_t elements) {
    return crossing_launch_shape(
        crossing_shape_of(plan->algorithm, plan->packet_kind, topology, parts, elements * size, proxy_threads), kernel,
        most_blocks, plan->tuned);
  };
  const uint64_t before_last = plan->launches == 0 ? 0 : (plan->launches - 1) * plan->elements_per_launch;
  plan->shape = shape(plan->elements_per_launch);
  plan->last_shape = shape(call.count - before_last);
}

}  // namespace

Plan plan_of(const Call& call, const RingLayout& layout, const TuningTable& tuning, const PlanSite& site) {
  if (site.gpu == nullptr) return make_plan(call, layout, tuning, site.linked ? kLinkedPlanLimits : kCpuPlanLimits);
  const cuda::GpuFacts& gpu = *site.gpu;
  const bool crosses = site.crossing_bytes != 0;
  Plan plan = make_plan(call, layout, tuning, crosses ? cuda::kCrossingLimits : cuda::limits_of(gpu.compute_capability),
                        site.crossing_bytes);
  if (crosses && plan.algorithm == Algorithm::kTwoShot) {
    throw Error(NVRAR_INVALID_ARGUMENT,
                "a two-shot all-reduce needs GPUs of one host, and this group's ranks are on several nodes");
  }
  if (call.fusion != nullptr && crosses) give_whole_rows(&plan, call, layout, site.crossing_bytes);
  if (call.fusion != nullptr && !crosses) give_rows(&plan, call, layout, gpu);
  plan.kernel = kernel_of(call, plan.algorithm, layout.topology, crosses);
  if (crosses) {
    give_crossing_shapes(&plan, call, layout.topology, cuda::kernel_shape(plan.kernel, gpu), gpu.most_blocks,
                         site.proxy_threads);
  } else if (call.fusion == nullptr) {
    give_shapes(&plan, call, layout.topology, cuda::kernel_shape(plan.kernel, gpu),
                {.resident = gpu.most_blocks,
                 .single = cuda::is_in_order(plan.kernel) ? gpu.most_blocks_in_order : gpu.most_blocks});
  }
  return plan;
}

void give_shapes(Plan* plan, const Call& call, const Topology& topology, const KernelShape& kernel,
                 const BlockLimits& most) noexcept {
  const uint64_t runs_of_a_tile = plan->algorithm == Algorithm::kTwoShot        ? topology.world
                                  : plan->algorithm == Algorithm::kHierarchical ? topology.largest
                                                                                : 1;
  const uint64_t tile_bytes = run_bytes_of(plan->packet_kind) * runs_of_a_tile;
  const auto shape = [&](uint64_t elements) {
    const uint64_t bytes = elements * element_bytes(call.data_type);
    return shape_of((bytes + tile_bytes - 1) / tile_bytes, kernel, most, plan->tuned);
  };
  const uint64_t before_last = plan->launches == 0 ? 0 : (plan->launches - 1) * plan->elements_per_launch;
  plan->shape = shape(plan->elements_per_launch);
  plan->last_shape = shape(call.count - before_last);
}

Plan make_plan(const Call& call, const RingLayout& layout, const TuningTable& tuning, const PlanLimits& limits,
               uint64_t crossing_bytes) noexcept {
  const Topology& topology = layout.topology;
  if (topology.world == 1) {
    return {Algorithm::kCopy, PacketKind::kEpoch, call.count, call.count == 0 ? uint64_t{0} : uint64_t{1},
            NVRAR_ALGORITHM_AUTO};
  }
  if (call.collective == NVRAR_BARRIER) return {Algorithm::kBarrier, PacketKind::kEpoch, 0, 1, NVRAR_ALGORITHM_AUTO};

  const uint64_t size = element_bytes(call.data_type);
  const uint64_t bytes = call.count * size;
  const nvrar_tuning_rule* rule = tuning.match({.collective = call.collective,
                                                .algorithm = call.algorithm,
                                                .data_type = call.data_type,
                                                .bytes = bytes,
                                                .world = topology.world,
                                                .ranks_per_node = topology.largest});
  // A rule for an algorithm that the group does not have is none.
  if (crossing_bytes != 0 && rule != nullptr && rule->algorithm == NVRAR_ALGORITHM_TWO_SHOT) rule = nullptr;
  const int32_t choice = choice_of(call, rule, bytes, topology, limits);
  const TunedShape tuned = tuned_shape_of(rule);
  Algorithm algorithm = algorithm_of(call.collective, choice);
  if (algorithm == Algorithm::kHierarchical) algorithm = between_nodes(bytes, topology, limits);
  const PacketKind kind = kind_of(algorithm, call, bytes, limits);
  if (protocol::planted(protocol::Defect::kAlignedPlan) && call.send % protocol::kPacketBytes != 0) {
    return {algorithm, kind, 64, (call.count + 63) / 64, choice, tuned};
  }
  uint64_t runs = runs_per_launch(algorithm, kind, call.data_type, layout, limits);
  if (crossing_bytes != 0) {
    const uint32_t parts = call.op == kNoOp ? 0 : element_type(call.data_type).partial_parts;
    runs = std::min(runs, most_crossing_runs(algorithm, kind, topology, parts, crossing_bytes));
  }
  const uint64_t per_launch = runs * (run_bytes_of(kind) / size);
  const uint64_t launches = call.count / per_launch + (call.count % per_launch != 0 ? 1 : 0);
  const bool built_in = call.algorithm == NVRAR_ALGORITHM_AUTO && rule == nullptr;
  return {algorithm, kind, per_launch, launches, choice, tuned, built_in};
}

}  // namespace nvrar
