// Builds the messages of a poisoned communicator: what failed, where, and what every rank was doing.
#ifndef NVRAR_API_REPORT_H
#define NVRAR_API_REPORT_H

#include <string>
#include <vector>

#include "shared/control_block.h"

namespace nvrar {

struct RankActivity {
  nvrar_call call{};
  bool known = false;
  bool closed = false;  // the rank has destroyed its communicator
};

// "rank 2 is in allReduce #41 float32[1024] SUM, ranks 0, 1, 3 in allReduce #41 float32[2048] SUM"
std::string describe_activities(const std::vector<RankActivity>& ranks);

// `own` is the rank that reports; `running` names its own call, "" if it was in none.
std::string describe_failure(const shared::Poison& poison, uint32_t own, const std::string& running, uint64_t waited_ns,
                             const std::vector<RankActivity>& ranks);

}  // namespace nvrar

#endif  // NVRAR_API_REPORT_H
