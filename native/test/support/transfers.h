// Messages for tests of point-to-point, and the batches made of them.
#ifndef NVRAR_TEST_SUPPORT_TRANSFERS_H
#define NVRAR_TEST_SUPPORT_TRANSFERS_H

#include <nvrar.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/pool.h"

namespace nvrar::test {

struct Message {
  int source;
  int destination;
  int32_t data_type;
  uint64_t count;
  uint64_t seed;  // of its bytes
};

// A rank's part in a list of messages that all ranks know, as one batch.
class RankBatch {
 public:
  // Sends and recvs each in the list's order, shuffled into each other by `seed`, in buffers at odd places.
  RankBatch(int rank, const std::vector<Message>& messages, uint64_t seed);

  nvrar_status run(nvrar_comm* comm) const;
  // "" if every recv holds its message and nothing else changed.
  std::string fault() const;
  const std::vector<nvrar_transfer>& transfers() const { return transfers_; }

 private:
  struct Part {
    Message message;
    bool sends;
    std::unique_ptr<GuardedBuffer> buffer;
  };
  std::vector<Part> parts_;
  int rank_;
  std::vector<nvrar_transfer> transfers_;
};

nvrar_status send_one(int rank, nvrar_comm* comm, int peer, const void* from, uint64_t count, int32_t data_type);
nvrar_status recv_one(int rank, nvrar_comm* comm, int peer, void* to, uint64_t count, int32_t data_type);

}  // namespace nvrar::test

#endif  // NVRAR_TEST_SUPPORT_TRANSFERS_H
