// The steps of protocol/ on the CPU's lane. With reduction.cpp the code that is compiled for AVX, which every CPU has
// that this backend runs on (probe says so before anything else runs).
#ifndef NVRAR_CPU_CPU_LAUNCH_H
#define NVRAR_CPU_CPU_LAUNCH_H

#include "call/plan.h"
#include "cpu/cpu_lane.h"

namespace nvrar::cpu {

// False: the lane says why; nothing is a result.
bool run_launch(CpuLane& lane, const Plan& plan, const protocol::Launch& launch) noexcept;

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_CPU_LAUNCH_H
