// Graphs and streams of a rank's GPU, by functions of the driver that the library itself does not use.
#ifndef NVRAR_TEST_SUPPORT_GPU_GRAPH_H
#define NVRAR_TEST_SUPPORT_GPU_GRAPH_H

#include <functional>

#include "cuda/driver/context.h"

namespace nvrar::test {

// What `work` enqueues on the rank's stream, or on another. Not while another graph is made of the same stream.
class Graph {
 public:
  Graph(int rank, const std::function<void(uint64_t stream)>& work);
  Graph(int rank, uint64_t stream, const std::function<void(uint64_t stream)>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(uint64_t stream) const;

 private:
  int rank_;
  struct Opaque* graph_ = nullptr;
  struct OpaqueExecutable* executable_ = nullptr;
};

// A stream of the rank's beside its own.
class SecondStream {
 public:
  // kBlocking: as programs make theirs that say nothing.
  static constexpr unsigned kBlocking = 0;
  explicit SecondStream(int rank, unsigned flags = cuda::kStreamNonBlocking);
  ~SecondStream();
  SecondStream(const SecondStream&) = delete;
  SecondStream& operator=(const SecondStream&) = delete;
  uint64_t handle() const { return reinterpret_cast<uint64_t>(stream_); }
  void wait() const;

 private:
  int rank_;
  cuda::Stream stream_ = nullptr;
};

// A kernel of somebody else on the rank's GPU, whose blocks stay for a time.
class ForeignKernel {
 public:
  explicit ForeignKernel(int rank);
  void launch(const SecondStream& stream, unsigned blocks, unsigned threads, uint64_t ns) const;
  unsigned multiprocessors() const { return multiprocessors_; }

 private:
  int rank_;
  unsigned multiprocessors_ = 0;
  cuda::Function function_ = nullptr;  // of a module that is kept
};

// Leaves the rank's GPU room for few blocks, for so long.
void hog_gpu(int rank, const SecondStream& stream, uint64_t ns);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_GPU_GRAPH_H
