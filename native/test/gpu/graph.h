// Graphs and streams of a rank's GPU, by driver functions that the library itself does not use.
#ifndef NVRAR_TEST_GPU_GRAPH_H
#define NVRAR_TEST_GPU_GRAPH_H

#include <functional>

#include "cuda/driver/context.h"

namespace nvrar::test {

// A graph of what `work` enqueues on the rank's stream, or on another one. The stream must not be capturing already.
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

// A second stream of a rank.
class SecondStream {
 public:
  // kBlocking: the default flags of a stream.
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

// A kernel that does not belong to the library, whose blocks stay resident for a given time.
class ForeignKernel {
 public:
  explicit ForeignKernel(int rank);
  void launch(const SecondStream& stream, unsigned blocks, unsigned threads, uint64_t ns) const;
  unsigned multiprocessors() const { return multiprocessors_; }

 private:
  int rank_;
  unsigned multiprocessors_ = 0;
  cuda::Function function_ = nullptr;  // its module is never unloaded
};

// Occupies the rank's GPU for a given time, except for room for a few blocks.
void hog_gpu(int rank, const SecondStream& stream, uint64_t ns);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_GPU_GRAPH_H
