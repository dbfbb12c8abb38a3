#include "plan/tuning.h"

#include <algorithm>
#include <string>

#include "call/call.h"
#include "common/error.h"
#include "common/hash.h"
#include "plan/gpu_limits.h"

namespace nvrar {
namespace {

static_assert(sizeof(nvrar_tuning_rule) == 48, "the hash reads every byte, so there is no padding");

constexpr int32_t kAnyType = -1;
constexpr uint32_t kThreadsStep = 32;
constexpr uint32_t kMostThreads = 1024;

void check_shape(const nvrar_tuning_rule& rule, const auto& refuse) {
  if (rule.blocks > NVRAR_MAX_RULE_BLOCKS) {
    refuse(std::to_string(rule.blocks) + " blocks are more than " + std::to_string(NVRAR_MAX_RULE_BLOCKS));
  }
  if (rule.tiles > NVRAR_MAX_RULE_TILES) {
    refuse(std::to_string(rule.tiles) + " tiles are more than " + std::to_string(NVRAR_MAX_RULE_TILES));
  }
  if (rule.threads % kThreadsStep != 0 || rule.threads > kMostThreads) {
    refuse(std::to_string(rule.threads) + " threads are not a multiple of " + std::to_string(kThreadsStep) + " up to " +
           std::to_string(kMostThreads));
  }
  if (rule.threads != 0 && rule.tiles != 0) refuse("it has both threads and tiles, and each follows from the other");
}

void check_rule(const nvrar_tuning_rule& rule, uint32_t number) {
  const auto refuse = [&](const std::string& what) {
    throw Error(NVRAR_INVALID_ARGUMENT, "tuning rule " + std::to_string(number) + ": " + what);
  };
  if (rule.data_type != kAnyType && element_bytes(rule.data_type) == 0) {
    refuse("there is no data type " + std::to_string(rule.data_type));
  }
  const bool tuned = rule.collective >= 0 && rule.collective <= NVRAR_ALL_TO_ALL && rule.collective != NVRAR_BARRIER;
  if (!tuned) refuse(std::to_string(rule.collective) + " is no collective that a rule can name");
  if (rule.world_size < 0) refuse("a world size of " + std::to_string(rule.world_size) + " is negative");
  if (rule.ranks_per_node < 0) refuse("ranks_per_node " + std::to_string(rule.ranks_per_node) + " is negative");
  if (rule.architecture < 0) refuse("there is no architecture " + std::to_string(rule.architecture));
  const bool all_reduce = rule.collective == 0 || rule.collective == NVRAR_ALL_REDUCE;
  if (!all_reduce && rule.algorithm != NVRAR_ALGORITHM_AUTO) refuse("only an all-reduce has a choice of algorithms");
  if (all_reduce && (rule.algorithm < NVRAR_ALGORITHM_ONE_SHOT || rule.algorithm > NVRAR_ALGORITHM_HIERARCHICAL)) {
    refuse(std::to_string(rule.algorithm) + " is no algorithm that a rule can name");
  }
  check_shape(rule, refuse);
}

template <class Number>
bool fits(int32_t wanted, Number actual) noexcept {
  return wanted == 0 || static_cast<Number>(wanted) == actual;
}

}  // namespace

void TuningTable::check_count(size_t count) {
  if (count <= NVRAR_MAX_TUNING_RULES) return;
  throw Error(NVRAR_INVALID_ARGUMENT, "a tuning table of " + std::to_string(count) + " rules is longer than " +
                                          std::to_string(NVRAR_MAX_TUNING_RULES));
}

TuningTable::TuningTable(std::span<const nvrar_tuning_rule> rules) {
  check_count(rules.size());
  for (uint32_t i = 0; i < rules.size(); ++i) check_rule(rules[i], i);
  rules_.assign(rules.begin(), rules.end());
  for (nvrar_tuning_rule& rule : rules_) {
    if (rule.collective == 0) rule.collective = NVRAR_ALL_REDUCE;
  }
}

void TuningTable::use_on(int32_t architecture, const std::string& owner) {
  const auto is_usable = [&](const nvrar_tuning_rule& rule) { return fits(rule.architecture, architecture); };
  if (!rules_.empty() && std::none_of(rules_.begin(), rules_.end(), is_usable)) {
    throw Error(NVRAR_INVALID_ARGUMENT, "the tuning table was made for " + architecture_text(rules_[0].architecture) +
                                            ", and " + owner + " has " + architecture_text(architecture) +
                                            ": make one there with nvrar tune, or leave it out");
  }
  architecture_ = architecture;
}

const nvrar_tuning_rule* TuningTable::match(const TunedCall& call) const noexcept {
  for (const nvrar_tuning_rule& rule : rules_) {
    const bool possible = rule.algorithm != NVRAR_ALGORITHM_HIERARCHICAL || call.ranks_per_node < call.world;
    const bool is_wanted = call.algorithm == NVRAR_ALGORITHM_AUTO || call.algorithm == rule.algorithm;
    const bool is_here = architecture_ == NVRAR_ARCHITECTURE_ANY || fits(rule.architecture, architecture_);
    if (possible && is_wanted && is_here && rule.collective == call.collective &&
        (rule.data_type == kAnyType || rule.data_type == call.data_type) && fits(rule.world_size, call.world) &&
        fits(rule.ranks_per_node, call.ranks_per_node) && call.bytes <= rule.bytes_max) {
      return &rule;
    }
  }
  return nullptr;
}

uint64_t TuningTable::hash() const noexcept { return hash_bytes(rules_.data(), rules_.size() * sizeof rules_[0]); }

std::string architecture_text(int32_t architecture) {
  if (architecture == NVRAR_ARCHITECTURE_X86_64) return "x86-64";
  return "compute capability " + cuda::capability_text(static_cast<uint32_t>(architecture));
}

}  // namespace nvrar
