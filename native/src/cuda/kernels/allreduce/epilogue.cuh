// What a kernel for teams or pairs does with its results. Vector: how a thread has them, a word or a packet. `at` is
// counted from the beginning of the block's part of the message (message_part.cuh).
//
//   Epilogue(args, part)
//   bool prepare()                        computes addresses. Always true (launch/lane_slots.cuh)
//   void expect(uint32_t at, bool exists) before a wait for packets: starts the loads for the next vector to be taken.
//                                         With a vector for each thread only, this is outside of all branches, for
//                                         their ends would wait for what is loaded in them
//   void sent()                           behind the first sends, by all threads of the block
//   void take(uint32_t at, const Vector& vector)
//                                         each vector of the result once, by the thread that has computed or received
//                                         it
//   void finish(body, bool good)          behind the last one, by all threads of the block. good: whether this thread
//                                         has all its results. body.each_result(visit(uint32_t at, bool exists)) goes
//                                         through them again, the threads of a warp together
#pragma once

#include "kernels/launch/message_part.cuh"

namespace nvrar::cuda {

struct StoreResult {
  __device__ __forceinline__ StoreResult(const KernelArgs& args, const WholeMessage&) : args_(args) {}
  __device__ __forceinline__ bool prepare() const { return true; }
  __device__ __forceinline__ void sent() const {}
  __device__ __forceinline__ void expect(uint32_t, bool) const {}
  template <class Vector>
  __device__ __forceinline__ void take(uint32_t at, const Vector& vector) const {
    *reinterpret_cast<Vector*>(args_.launch.recv + at) = vector;
  }
  template <class Body>
  __device__ __forceinline__ void finish(const Body&, bool) const {}

 private:
  const KernelArgs& args_;
};

}  // namespace nvrar::cuda
