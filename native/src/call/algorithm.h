// The algorithms by which a call can run. Compiled for host and device.
#ifndef NVRAR_CALL_ALGORITHM_H
#define NVRAR_CALL_ALGORITHM_H

#include <stdint.h>

namespace nvrar {

enum class Algorithm : uint32_t {
  kCopy,  // a group of one
  kOneShot,
  kTwoShot,
  kHierarchical,
  kReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kHierarchicalTwoShot,  // last, so that kernels, which do not have it, stay as they are
};

constexpr bool sums(Algorithm algorithm) {
  return (algorithm >= Algorithm::kOneShot && algorithm <= Algorithm::kReduceScatter) ||
         algorithm == Algorithm::kHierarchicalTwoShot;
}

}  // namespace nvrar

#endif  // NVRAR_CALL_ALGORITHM_H
