// What a fused all-reduce between hosts does with its rows once they are summed: a launch of its own behind the one
// that crosses, because no block of that one has a whole row. A block has a row, whose sums are at launch.send.
#pragma once

#include "kernels/allreduce/fused_epilogue.cuh"
#include "kernels/launch/entry.cuh"

namespace nvrar::cuda {

// What the epilogue asks of the steps before it: the row's vectors, by all threads of a warp together.
class RowOfSums {
 public:
  __device__ __forceinline__ explicit RowOfSums(const OneRow& row) : bytes_(row.bytes) {}
  template <class Visit>
  __device__ __forceinline__ void each_result(Visit visit) const {
    const uint32_t own = threadIdx.x * protocol::kPacketBytes;
#pragma unroll 1
    for (uint32_t at = 0; at < bytes_; at += blockDim.x * protocol::kPacketBytes) visit(at + own, at + own < bytes_);
  }

 private:
  const uint32_t bytes_;
};

template <class Element, bool kNorm>
__device__ __forceinline__ void finish_rows(const FusedArgs& args) {
  wait_for_previous_launch();
  // Of a launch that failed there are no sums.
  const bool good = __syncthreads_and(load_word(&line_of(args).beside.poison) == 0) != 0;
  if (good) {
    const OneRow row(args);
    const RowOfSums sums(row);
    RowEpilogue<Element, Packet, false, kNorm> epilogue(args, row);
    const uint8_t* const from = args.launch.send + row.begin();
    sums.each_result([&](uint32_t at, bool exists) {
      epilogue.expect(at, exists);
      const Packet sum = load_input<true>(from + at, exists);
      if (exists) epilogue.take(at, sum);
    });
    epilogue.finish(sums, true);
  }
  __syncthreads();
  if (threadIdx.x == 0) count_ended(args, blockDim.x / kWarpThreads);
}

}  // namespace nvrar::cuda

// For RMS_NORM and for the other forms.
#define NVRAR_FINISH_ROWS(type, element)                                                                      \
  NVRAR_KERNEL_OF(FusedArgs, finish_rows_##type, kRowThreads, kPlaces, finish_rows<protocol::element, false>) \
  NVRAR_KERNEL_OF(FusedArgs, finish_rows_norm_##type, kRowThreads, kPlaces, finish_rows<protocol::element, true>)
