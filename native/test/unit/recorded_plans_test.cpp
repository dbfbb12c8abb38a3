// The plans of calls of every kind and size, as they were recorded before the decision came into one place. A change
// that means to choose otherwise writes the table anew: NVRAR_WRITE_PLANS=FILE writes it, and FILE.txt with every plan.
// Compare that file with the one of the commit before: the table shows only which groups of calls differ.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "call/fusion.h"
#include "common/error.h"
#include "plan/plan.h"
#include "support/error_of.h"

namespace nvrar {
namespace {

const bool kWrites = std::getenv("NVRAR_WRITE_PLANS") != nullptr;

struct Site {
  const char* name;
  PlanSite site;
};

// As an H200 and an A100 have it: for two groups, for one, and for 16.
constexpr cuda::GpuFacts gpu_facts(uint32_t capability, uint32_t cluster, uint32_t blocks, uint32_t in_order,
                                   uint8_t tiles) {
  cuda::GpuFacts gpu;
  gpu.compute_capability = capability;
  gpu.most_in_cluster = cluster;
  gpu.most_blocks = blocks;
  gpu.most_blocks_in_order = in_order;
  for (uint8_t type = 0; type < kElementCodes; ++type) {
    gpu.tiles_of_sums[type] = static_cast<uint8_t>(8 - type % 3);
    gpu.tiles_of_node_sums[type] = static_cast<uint8_t>(tiles - type % 2);
  }
  return gpu;
}
constexpr cuda::GpuFacts kShared = gpu_facts(90, 16, 264, 264, 4);
constexpr cuda::GpuFacts kExclusive = gpu_facts(90, 16, 528, 8192, 4);
constexpr cuda::GpuFacts kSmallShare = gpu_facts(90, 8, 33, 33, 4);
constexpr cuda::GpuFacts kOld = gpu_facts(80, 1, 162, 162, 3);
constexpr Site kSites[] = {
    {"cpu", {}},
    {"links", {.linked = true}},
    {"gpu", {.gpu = &kShared}},
    {"exclusive gpu", {.gpu = &kExclusive}},
    {"sixteenth of a gpu", {.gpu = &kSmallShare}},
    {"gpu without clusters", {.gpu = &kOld}},
};

constexpr uint32_t kTopologies[][2] = {{1, 1}, {2, 2}, {2, 1}, {3, 3}, {4, 4}, {4, 2},  {5, 3},
                                       {6, 6}, {7, 7}, {8, 8}, {8, 4}, {8, 2}, {16, 8}, {48, 8}};
constexpr int32_t kCollectives[] = {NVRAR_ALL_REDUCE, NVRAR_REDUCE,         NVRAR_BROADCAST, NVRAR_ALL_GATHER,
                                    NVRAR_ALL_TO_ALL, NVRAR_REDUCE_SCATTER, NVRAR_BARRIER};
constexpr uint64_t kSizes[] = {16,        64,        4096,      8192,    32 << 10, 40 << 10, 64 << 10, 96 << 10,
                               128 << 10, 160 << 10, 512 << 10, 1 << 20, 2 << 20,  8 << 20,  16 << 20, 100 << 20};
constexpr uint64_t kRings[] = {96 << 10, 1 << 20, 16 << 20};
constexpr uint32_t kRows[] = {0, 1, 2, 5, 8, 32, 64, 300};
constexpr uint32_t kHidden[] = {8, 1024, 4096, 5120, 8192, 16384, 53248};

// A rule for all all-reduces.
const TuningTable kTuned = [] {
  nvrar_tuning_rule rule{};
  rule.size = sizeof rule;
  rule.data_type = -1;
  rule.algorithm = NVRAR_ALGORITHM_TWO_SHOT;
  rule.bytes_max = ~uint64_t{0};
  rule.blocks = 24;
  rule.threads = 128;
  return TuningTable({&rule, 1});
}();

std::string text_of(const LaunchShape& shape) {
  return std::to_string(shape.blocks) + "x" + std::to_string(shape.threads) + "/" +
         std::to_string(shape.tiles_per_block) + (shape.single ? "s" : "");
}

std::string text_of(const RowShape& rows) {
  return std::to_string(rows.rows) + " " + std::to_string(rows.row_bytes) + " " + std::to_string(rows.tiles_per_row) +
         " " + std::to_string(rows.blocks_per_row) + " " + std::to_string(rows.header_blocks) + " " +
         std::to_string(rows.rows_per_launch) + (rows.meet ? "m " : " ") + text_of(rows.block);
}

const std::string& name_of(const cuda::KernelId& id) {
  static const auto* const names = [] {
    auto* const found = new std::map<size_t, std::string>;
    for (const cuda::KernelImage& image : cuda::kernel_images()) (*found)[cuda::index_of(image.id)] = image.name;
    return found;
  }();
  return names->at(cuda::index_of(id));
}

std::string text_of(const Plan& plan, bool on_gpu) {
  return std::to_string(static_cast<int>(plan.algorithm)) + " " + std::to_string(static_cast<int>(plan.packet_kind)) +
         " " + std::to_string(plan.elements_per_launch) + " " + std::to_string(plan.launches) + " " +
         std::to_string(plan.choice) + (plan.built_in ? "b " : " ") + text_of(plan.shape) + " " +
         text_of(plan.last_shape) + " by a rule for " + std::to_string(plan.tuned.blocks) + " " +
         std::to_string(plan.tuned.threads) + " " + std::to_string(plan.tuned.tiles) + " [" + text_of(plan.rows) +
         "] " + (on_gpu ? name_of(plan.kernel) : "");
}

// Of one site, topology and collective.
class Recording {
 public:
  Recording(const Site& site, const protocol::Topology& topology, int32_t collective)
      : site_(site), topology_(topology) {
    call_.collective = collective;
    const bool reduces =
        collective == NVRAR_ALL_REDUCE || collective == NVRAR_REDUCE || collective == NVRAR_REDUCE_SCATTER;
    if (collective == NVRAR_BARRIER) {
      add();
      return;
    }
    const std::vector<int32_t> ops = reduces ? std::vector<int32_t>{NVRAR_SUM, NVRAR_MAX} : std::vector<int32_t>{kNoOp};
    for (int32_t type = 0; type < kElementCodes; ++type) {
      if (element_bytes(type) == 0) continue;
      call_.data_type = type;
      for (const int32_t op : ops) {
        call_.op = op;
        // What else than sums there is makes no difference among types.
        if (op != NVRAR_MAX || type == NVRAR_BFLOAT16 || type == NVRAR_INT32) add_sizes();
      }
      if (collective == NVRAR_ALL_REDUCE && element_type(type).in_teams) add_fusions();
    }
  }
  uint64_t digest() const { return digest_; }
  const std::string& text() const { return text_; }

 private:
  void add_sizes() {
    call_.count = 0;
    add_addresses();
    for (const int32_t algorithm :
         {NVRAR_ALGORITHM_AUTO, NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT, NVRAR_ALGORITHM_HIERARCHICAL}) {
      const bool has = call_.collective == NVRAR_ALL_REDUCE || algorithm == NVRAR_ALGORITHM_AUTO;
      if (!has || (algorithm == NVRAR_ALGORITHM_HIERARCHICAL && topology_.nodes() == 1)) continue;
      if (algorithm != NVRAR_ALGORITHM_AUTO && topology_.world > protocol::kMaxRanks) continue;
      call_.algorithm = algorithm;
      for (const uint64_t size : kSizes) {
        const uint64_t count = size / element_bytes(call_.data_type);
        for (const uint64_t near : {count - 1, count, count + 1}) {
          call_.count = near;
          add_addresses();
        }
      }
    }
    call_.algorithm = NVRAR_ALGORITHM_AUTO;
  }
  void add_addresses() {
    for (const uint64_t address : {4096, 4104}) {
      call_.send = call_.recv = address;
      if (address == 4096 || site_.site.gpu != nullptr) add();
    }
  }
  void add_fusions() {
    Fusion fusion;
    call_.fusion = &fusion;
    call_.op = NVRAR_SUM;
    call_.send = call_.recv = 4096;
    for (const int32_t form :
         {NVRAR_FUSION_RESIDUAL, NVRAR_FUSION_BIAS, NVRAR_FUSION_RMS_NORM, NVRAR_FUSION_RMS_FOLD}) {
      fusion.form = form;
      for (const uint32_t rows : kRows) {
        for (const uint32_t hidden : kHidden) {
          fusion.rows = rows;
          fusion.hidden = hidden;
          call_.count = uint64_t{rows} * hidden;
          for (const int32_t algorithm : {NVRAR_ALGORITHM_AUTO, NVRAR_ALGORITHM_ONE_SHOT, NVRAR_ALGORITHM_TWO_SHOT}) {
            call_.algorithm = algorithm;
            add();
          }
        }
      }
    }
    call_.algorithm = NVRAR_ALGORITHM_AUTO;
    call_.fusion = nullptr;
  }
  void add() {
    for (const uint64_t ring_bytes : kRings) add({ring_bytes, topology_}, TuningTable());
    if (call_.collective == NVRAR_ALL_REDUCE) add({kRings[2], topology_}, kTuned);
  }
  void add(const protocol::RingLayout& layout, const TuningTable& tuning) {
    std::string line;
    try {
      line = text_of(plan_of(call_, layout, tuning, site_.site), site_.site.gpu != nullptr);
    } catch (const Error& error) {
      line = "refused, " + std::to_string(error.status());
    }
    for (const char character : line + '\n') digest_ = (digest_ ^ static_cast<uint8_t>(character)) * 1099511628211U;
    if (!kWrites) return;
    text_ += std::to_string(call_.data_type) + " " + std::to_string(call_.op) + " " + std::to_string(call_.count) +
             " of " + std::to_string(call_.send) + " by " + std::to_string(call_.algorithm) +
             (call_.fusion == nullptr ? "" : " fused " + std::to_string(call_.fusion->form)) + " in " +
             std::to_string(layout.ring_bytes) + ": " + line + '\n';
  }

  const Site& site_;
  const protocol::Topology topology_;
  Call call_;
  uint64_t digest_ = 14695981039346656037U;  // FNV-1a
  std::string text_;
};

struct Recorded {
  const char* what;
  uint64_t digest;
};
constexpr Recorded kRecorded[] = {
#include "unit/recorded_plans.inc"
};

TEST(RecordedPlans, AreTheSameAsEver) {
  std::map<std::string, uint64_t> recorded;
  for (const Recorded& row : kRecorded) recorded[row.what] = row.digest;
  std::ofstream table;
  std::ofstream plans;
  if (kWrites) {
    table.open(std::getenv("NVRAR_WRITE_PLANS"));
    plans.open(std::string(std::getenv("NVRAR_WRITE_PLANS")) + ".txt");
  }
  size_t count = 0;
  for (const Site& site : kSites) {
    for (const auto& [world, per_node] : kTopologies) {
      if (site.site.gpu != nullptr && world > protocol::kMaxRanks) continue;
      for (const int32_t collective : kCollectives) {
        const Recording recording(site, {world, per_node}, collective);
        const std::string what = std::string(site.name) + ", " + std::to_string(world) + " ranks in nodes of " +
                                 std::to_string(per_node) + ", collective " + std::to_string(collective);
        EXPECT_EQ(recording.digest(), recorded[what]) << what;
        ++count;
        if (!kWrites) continue;
        table << "{\"" << what << "\", " << recording.digest() << "U},\n";
        plans << what << '\n' << recording.text();
      }
    }
  }
  EXPECT_EQ(count, std::size(kRecorded));
}

// A kernel that has not the steps of the algorithm would leave at once, and the call would seem to be done.
TEST(KernelImages, HaveAPlaceOfTheirOwn) {
  std::set<size_t> places;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    EXPECT_TRUE(places.insert(cuda::index_of(image.id)).second) << image.name;
    EXPECT_LT(cuda::index_of(image.id), cuda::kKernelPlaces);
  }
}

TEST(KernelChoices, HaveNoHierarchicalKernelInOneNode) {
  const auto choose = [](uint32_t ranks_per_node) {
    return cuda::kernel_of({Algorithm::kHierarchical, NVRAR_FLOAT32, NVRAR_SUM, {4, ranks_per_node}, 0, true});
  };
  EXPECT_EQ(choose(2).family, cuda::KernelFamily::kNodeSum);
  EXPECT_EQ(test::error_of([&] { (void)choose(4); }), "8 no kernel has the steps of algorithm 3 in nodes of 4 ranks");
  EXPECT_EQ(test::error_of([] {
              (void)cuda::kernel_of({Algorithm::kHierarchicalTwoShot, NVRAR_FLOAT32, NVRAR_SUM, {6, 2}, 0, true});
            }),
            "8 no kernel has the steps of algorithm 10 in nodes of 2 ranks");
}

}  // namespace
}  // namespace nvrar
