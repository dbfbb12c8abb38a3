#include "call/tuning.h"

#include <string>

#include "call/call.h"
#include "common/error.h"
#include "common/hash.h"

namespace nvrar {
namespace {

static_assert(sizeof(nvrar_tuning_rule) == 32, "the hash reads every byte, so there is no padding");

constexpr int32_t kAnyType = -1;

void check_rule(const nvrar_tuning_rule& rule, uint32_t number) {
  const auto refuse = [&](const std::string& what) {
    throw Error(NVRAR_INVALID_ARGUMENT, "tuning rule " + std::to_string(number) + ": " + what);
  };
  if (rule.data_type != kAnyType && element_bytes(rule.data_type) == 0) {
    refuse("there is no data type " + std::to_string(rule.data_type));
  }
  if (rule.reserved != 0) refuse("reserved is not 0");
  if (rule.world_size < 0) refuse("a world size of " + std::to_string(rule.world_size) + " is negative");
  if (rule.ranks_per_node < 0) refuse("ranks_per_node " + std::to_string(rule.ranks_per_node) + " is negative");
  if (rule.algorithm < NVRAR_ALGORITHM_ONE_SHOT || rule.algorithm > NVRAR_ALGORITHM_HIERARCHICAL) {
    refuse(std::to_string(rule.algorithm) + " is no algorithm that a rule can name");
  }
}

bool fits(int32_t wanted, uint32_t actual) noexcept { return wanted == 0 || static_cast<uint32_t>(wanted) == actual; }

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
}

int32_t TuningTable::algorithm(int32_t data_type, uint64_t bytes, uint32_t world,
                               uint32_t ranks_per_node) const noexcept {
  for (const nvrar_tuning_rule& rule : rules_) {
    const bool possible = rule.algorithm != NVRAR_ALGORITHM_HIERARCHICAL || ranks_per_node < world;
    if (possible && (rule.data_type == kAnyType || rule.data_type == data_type) && fits(rule.world_size, world) &&
        fits(rule.ranks_per_node, ranks_per_node) && bytes <= rule.bytes_max) {
      return rule.algorithm;
    }
  }
  return NVRAR_ALGORITHM_AUTO;
}

uint64_t TuningTable::hash() const noexcept { return hash_bytes(rules_.data(), rules_.size() * sizeof rules_[0]); }

}  // namespace nvrar
