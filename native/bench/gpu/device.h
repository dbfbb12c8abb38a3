// A rank's GPU, and RAII owners of the resources created on it.
#ifndef NVRAR_BENCH_GPU_DEVICE_H
#define NVRAR_BENCH_GPU_DEVICE_H

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/driver.h"

namespace nvrar::bench {

using CudaStream = cuda::Stream;
using CudaFunction = cuda::Function;

// The number of GPUs visible to this process; throws if there is none, or no driver.
int visible_gpus();

// Makes the GPU's primary context current on the calling thread, permanently.
class Gpu {
 public:
  explicit Gpu(int ordinal);

  int ordinal() const { return ordinal_; }
  std::string name() const;
  int architecture() const;  // NVRAR's: 10 * major + minor of the compute capability
  int clock_khz() const;
  int multiprocessors() const;
  uint64_t l2_bytes() const;
  bool has_programmatic_launch() const;
  bool has_clusters() const;
  uint64_t free_bytes() const;
  // Waits until all work on all streams of this process has been executed.
  void settle() const;

 private:
  int compute_capability() const;  // its major part
  int attribute(int of, const char* asking) const;

  const int ordinal_;
  int device_ = 0;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  uint64_t address() const { return address_; }
  void fill(uint8_t value);
  void write(const std::vector<uint8_t>& bytes);
  void read(std::vector<uint8_t>* bytes) const;

 private:
  const uint64_t bytes_;
  uint64_t address_ = 0;
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  CudaStream handle() const { return stream_; }
  void synchronize() const;

 private:
  CudaStream stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  void record(const Stream& stream);
  void synchronize() const;
  double us_since(const Event& start) const;

 private:
  cuda::Event event_ = nullptr;
};

// An instantiated graph of what `work` enqueues on the stream.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& work);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void launch(const Stream& stream) const;

 private:
  cuda::GraphExec executable_ = nullptr;
};

// Kernels of an image that the driver can load. They stay loaded until the end of the process.
class Kernels {
 public:
  explicit Kernels(const void* image);
  CudaFunction of(const char* name) const;

 private:
  cuda::Module module_ = nullptr;
};

struct Grid {
  unsigned blocks;
  unsigned threads;
  unsigned cluster = 1;  // blocks of a cluster
};

// Enqueues a kernel with programmatic dependent launch or normally.
void launch(CudaFunction kernel, const Grid& grid, bool programmatic, CudaStream stream, void** arguments);

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_DEVICE_H
