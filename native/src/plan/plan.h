// The algorithm, the packets, the launches and the kernel of a call: a pure function of its arguments (protocol.md 12).
// All ranks agree on all of it but shape, last_shape and kernel, which may follow from the alignment of a rank's
// buffers.
#ifndef NVRAR_PLAN_PLAN_H
#define NVRAR_PLAN_PLAN_H

#include "call/algorithm.h"
#include "call/call.h"
#include "plan/kernels.h"
#include "plan/launch_shape.h"
#include "plan/row_shape.h"
#include "plan/tuning.h"
#include "protocol/ring_layout.h"

namespace nvrar {

struct Plan {
  Algorithm algorithm;
  protocol::PacketKind packet_kind;
  uint64_t elements_per_launch;  // elements from one source to one destination; 0 for a barrier
  uint64_t launches;
  int32_t choice;  // NVRAR_ALGORITHM_* of an all-reduce; 0 if there is no choice
  TunedShape tuned{};
  bool built_in = false;  // whether neither the call nor a tuning rule has made the choice
  // The shape of all launches except the last, and of the last. Ranks may have different shapes, because the alignment
  // of a rank's buffers may decide.
  LaunchShape shape{};
  LaunchShape last_shape{};
  RowShape rows{};          // of a fused all-reduce on a GPU
  cuda::KernelId kernel{};  // on a GPU
};

// The sizes from which a backend uses another algorithm or packet kind. They are measured, and part of the build.
struct PlanLimits {
  // A reduction of at most this size uses epoch packets: they need no clearing, and with so little data it does not
  // matter that they are twice as many.
  uint64_t epoch_reduction_bytes;
  // By world size: an all-reduce of at most this size is one-shot. In larger groups none is.
  uint64_t one_shot_bytes[protocol::kMaxRanks + 1];
  // And a fused all-reduce, whose blocks meet once more behind the exchange.
  uint64_t fused_one_shot_bytes[protocol::kMaxRanks + 1];
  // Whether that is so in nodes of several ranks, too; if not, hierarchical is for all sizes there.
  bool one_shot_in_nodes;
  // The launches of two-shot and hierarchical, whose data passes through the rings twice, use at most this much of an
  // area, or one run of each rank.
  uint64_t two_phase_area_bytes;
  // A hierarchical all-reduce of more than this, of more than two nodes, is a two-shot between the nodes, if they are
  // few enough to send their sums to all.
  uint64_t hierarchical_one_shot_bytes;
  // How many hops' areas, which lie side by side, the launches of one hop use.
  uint32_t one_hop_areas;
  // Of all-gather, all-to-all and broadcast: those that preserve all bits, kEpoch or kMarked.
  protocol::PacketKind move_packets;
};

// Measured with float32 and processes on two cores. Two-shot becomes faster than one-shot between 2 and 16 KB for up to
// 4 ranks, and between 4 and 8 KB for 6 ranks. With small areas, all memory of a launch stays in a core's cache, which
// takes half the time of launches with a whole area of 1 MB, for messages of 1 MB and more.
constexpr PlanLimits kCpuPlanLimits = {64,
                                       {0, 0, 8192, 8192, 8192, 4096, 4096, 4096, 4096},
                                       {0, 0, 8192, 8192, 8192, 4096, 4096, 4096, 4096},
                                       true,
                                       128 << 10,
                                       ~uint64_t{0},
                                       1,
                                       protocol::PacketKind::kEpoch};

// For ranks that are linked. A launch costs a round trip of the network, so launches are as large as the areas allow.
// Two ranks send each other as much in two hops as in one. A message takes its sender and its receiver many times what
// a hop within a node takes, and hierarchical sends one for each other node, where one-shot sends one for each rank
// there.
constexpr PlanLimits kLinkedPlanLimits = [] {
  PlanLimits limits = kCpuPlanLimits;
  limits.two_phase_area_bytes = 1 << 20;
  limits.hierarchical_one_shot_bytes = 64 << 10;
  limits.one_hop_areas = 3;
  limits.one_shot_in_nodes = false;
  limits.one_shot_bytes[2] = ~uint64_t{0};
  limits.fused_one_shot_bytes[2] = ~uint64_t{0};
  return limits;
}();

// Where a group's calls run.
struct PlanSite {
  bool linked = false;                  // on CPUs of several hosts
  const cuda::GpuFacts* gpu = nullptr;  // null: on CPUs
  uint64_t crossing_bytes = 0;  // of an area of what crosses between GPUs of several hosts (protocol/crossing.h); or 0
  uint32_t proxy_threads = 1;   // of each rank, which carry it
};

// The whole decision. The call must have passed check_call. Throws NVRAR_INVALID_ARGUMENT if it is a fused all-reduce
// that GPUs cannot run in this group.
Plan plan_of(const Call& call, const protocol::RingLayout& layout, const TuningTable& tuning, const PlanSite& site);

// Its first part, without the shapes, rows and kernel. It is not final for a fused all-reduce on GPUs, whose rows
// decide the launches.
Plan make_plan(const Call& call, const protocol::RingLayout& layout, const TuningTable& tuning,
               const PlanLimits& limits, uint64_t crossing_bytes = 0) noexcept;
// Computes the shapes, for the kernel that this rank runs the call with.
void give_shapes(Plan* plan, const Call& call, const protocol::Topology& topology, const KernelShape& kernel,
                 const BlockLimits& most) noexcept;

}  // namespace nvrar

#endif  // NVRAR_PLAN_PLAN_H
