// The steps of protocol/ on the CPU's lane. With reduction.cpp the code that is compiled for AVX, which every CPU has
// that this backend runs on (probe says so before anything else runs).
#ifndef NVRAR_HOST_HOST_LAUNCH_H
#define NVRAR_HOST_HOST_LAUNCH_H

#include "host/host_lane.h"
#include "plan.h"

namespace nvrar::host {

// False: the lane says why; nothing is a result.
bool run_launch(HostLane& lane, const Plan& plan, const protocol::Launch& launch) noexcept;

}  // namespace nvrar::host

#endif  // NVRAR_HOST_HOST_LAUNCH_H
