// The tuning table: the caller's choice of an algorithm for each all-reduce. It is the same on all members.
#ifndef NVRAR_CALL_TUNING_H
#define NVRAR_CALL_TUNING_H

#include <nvrar.h>

#include <cstdint>
#include <span>
#include <vector>

namespace nvrar {

class TuningTable {
 public:
  TuningTable() = default;
  // Throws NVRAR_INVALID_ARGUMENT if no table may have so many rules.
  static void check_count(size_t count);
  // Throws NVRAR_INVALID_ARGUMENT; the message names the rule.
  explicit TuningTable(std::span<const nvrar_tuning_rule> rules);

  // The algorithm of the first rule that matches, else NVRAR_ALGORITHM_AUTO. ranks_per_node is world if all ranks are
  // in one node.
  int32_t algorithm(int32_t data_type, uint64_t bytes, uint32_t world, uint32_t ranks_per_node) const noexcept;
  // Equal for equal tables.
  uint64_t hash() const noexcept;

 private:
  std::vector<nvrar_tuning_rule> rules_;
};

}  // namespace nvrar

#endif  // NVRAR_CALL_TUNING_H
