// How a thread takes its packet of a marked run (protocol/packet.h).
#pragma once

#include "kernels/launch/take_and_clear.cuh"

namespace nvrar::cuda {

using protocol::MarkedPacket;
using protocol::MarkPacket;

// Takes this lane's packet out of its own slot `at`, and makes its payload of it. mark: where the run's mark comes, if
// it has one. The lanes of a warp need not call this together.
__device__ __forceinline__ bool take_marked(const KernelArgs& args, Packet* at, const Packet* mark, uint32_t source,
                                            uint64_t epoch, Packet* payload) {
  if (!take_packet<MarkedPacket>(args, at, source, epoch, payload)) return false;
  if (__builtin_expect(!MarkedPacket::is_in_doubt(*payload), 1)) return true;
  Packet of_run;
  if (!await<MarkPacket>(args, mark, source, epoch, &of_run)) return false;
  *payload = MarkedPacket::restore(*payload, of_run, threadIdx.x % kWarpThreads);
  return true;
}

}  // namespace nvrar::cuda
