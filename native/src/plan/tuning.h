// The tuning table: how the caller wants calls to run, by their size. It is the same on all members.
#ifndef NVRAR_PLAN_TUNING_H
#define NVRAR_PLAN_TUNING_H

#include <nvrar.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nvrar {

// What a rule is compared with.
struct TunedCall {
  int32_t collective;
  int32_t algorithm;  // that the call names, or NVRAR_ALGORITHM_AUTO
  int32_t data_type;
  uint64_t bytes;
  uint32_t world;
  uint32_t ranks_per_node;  // world if all ranks are in one node
};

class TuningTable {
 public:
  TuningTable() = default;
  // Throws NVRAR_INVALID_ARGUMENT if no table may have so many rules.
  static void check_count(size_t count);
  // Throws NVRAR_INVALID_ARGUMENT; the message names the rule.
  explicit TuningTable(std::span<const nvrar_tuning_rule> rules);

  // From here on, only rules of this architecture and of any match. Throws NVRAR_INVALID_ARGUMENT if all rules are of
  // others; `owner` is whose architecture it is, for the message.
  void use_on(int32_t architecture, const std::string& owner);
  // The first rule that matches, else null. It lives as long as this table.
  const nvrar_tuning_rule* match(const TunedCall& call) const noexcept;
  // Equal for equal tables.
  uint64_t hash() const noexcept;

 private:
  std::vector<nvrar_tuning_rule> rules_;
  int32_t architecture_ = NVRAR_ARCHITECTURE_ANY;  // any: all rules match
};

// "compute capability 9.0" for 90, "x86-64" for NVRAR_ARCHITECTURE_X86_64.
std::string architecture_text(int32_t architecture);

}  // namespace nvrar

#endif  // NVRAR_PLAN_TUNING_H
