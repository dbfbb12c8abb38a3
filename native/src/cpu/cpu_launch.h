// Runs the steps of protocol/ on the CPU's port. Only cpu_launch.cpp, fused_rows.cpp and reduction.cpp are
// compiled for AVX, which every CPU that this backend runs on has (nvrar_probe checks it before any of this code runs).
#ifndef NVRAR_CPU_CPU_LAUNCH_H
#define NVRAR_CPU_CPU_LAUNCH_H

#include "cpu/cpu_port.h"
#include "plan/plan.h"

namespace nvrar::cpu {

// False: the launch has failed, and the port has the reason.
template <bool kLinks>
bool run_launch(CpuPort<kLinks>& port, const Plan& plan, const protocol::Launch& launch) noexcept;

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_CPU_LAUNCH_H
