// Where the ranks of a test compute: on the host, or with NVRAR_TEST_BACKEND=cuda on the GPUs of this machine, rank r
// on GPU r mod NVRAR_TEST_GPUS (1 if it is not set). The tests are the same.
#ifndef NVRAR_TEST_SUPPORT_GPU_H
#define NVRAR_TEST_SUPPORT_GPU_H

#include <nvrar.h>

#include "cuda/driver/context.h"
#include "support/pool.h"

namespace nvrar::test {

bool on_gpu();
// Without the driver: a process that has started it cannot be forked.
bool has_gpu();
int32_t test_backend();
int32_t gpu_of(int rank);

// Of a rank, on a GPU.
cuda::Context context_of(int rank);
// A rank's stream; 0 on the host.
uint64_t stream_of(int rank);
// What the call has come to once it is over: of a call that was enqueued, after waiting for the rank's stream. If it
// has failed, nvrar_last_error says how.
nvrar_status settled(int rank, nvrar_comm* comm, nvrar_status enqueued);

// What the rank's calls use instead of memory of the host: that itself on the host; on a GPU a copy of it, guards and
// all, at the same distance from an alignment boundary, `at` bytes into the rank's room for such copies.
constexpr uint64_t kImageRoomBytes = uint64_t{32} << 20;
class Image {
 public:
  Image(int rank, uint64_t at, std::span<uint8_t> memory);
  Image(int rank, uint64_t at, GuardedBuffer* buffer) : Image(rank, at, buffer->storage()) {}
  // Where the next one can begin.
  uint64_t end() const;
  uint64_t address() const { return address(memory_.data()); }
  // Of a place in the memory.
  uint64_t address(const uint8_t* place) const;
  // Before another call: brings there what the memory holds.
  void give();
  // After the call: brings back what is there.
  void fetch();

 private:
  int rank_;
  uint64_t at_;
  std::span<uint8_t> memory_;
  uint64_t copy_ = 0;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_GPU_H
