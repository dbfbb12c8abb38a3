// Selects where the ranks of a test compute: on the host, or with NVRAR_TEST_BACKEND=cuda on the GPUs of this machine,
// rank r on GPU r mod NVRAR_TEST_GPUS (1 if it is not set). The tests are the same.
#ifndef NVRAR_TEST_SUPPORT_GPU_H
#define NVRAR_TEST_SUPPORT_GPU_H

#include <nvrar.h>

#include "cuda/driver/context.h"
#include "support/pool.h"

namespace nvrar::test {

bool on_gpu();
// Does not use the driver, because a process that has initialised it cannot be forked.
bool has_gpu();
int32_t test_backend();
int32_t gpu_of(int rank);

// The context of a rank on a GPU.
cuda::Context context_of(int rank);
// A rank's stream; 0 on the host.
uint64_t stream_of(int rank);
// The final status of a call: for an enqueued call, after waiting for the rank's stream. If it has failed,
// nvrar_last_error says why.
nvrar_status settled(int rank, nvrar_comm* comm, nvrar_status enqueued);

// The memory that the rank's calls use for a host buffer. On the host it is the buffer itself; on a GPU it is a copy of
// it, including the guard bands, at the same distance from an alignment boundary, `at` bytes into the rank's room for
// such copies.
constexpr uint64_t kImageRoomBytes = uint64_t{32} << 20;
class Image {
 public:
  Image(int rank, uint64_t at, std::span<uint8_t> memory);
  Image(int rank, uint64_t at, GuardedBuffer* buffer) : Image(rank, at, buffer->storage()) {}
  // The offset at which the next image can begin.
  uint64_t end() const;
  uint64_t address() const { return address(memory_.data()); }
  // The address that corresponds to a place in the host buffer.
  uint64_t address(const uint8_t* place) const;
  // Before another call: copies the host buffer to the image.
  void give();
  // After the call: copies the image back to the host buffer.
  void fetch();

 private:
  int rank_;
  uint64_t at_;
  std::span<uint8_t> memory_;
  uint64_t copy_ = 0;
};

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_GPU_H
