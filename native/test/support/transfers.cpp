#include "support/transfers.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "call/call.h"
#include "support/abi.h"
#include "support/gpu.h"
#include "support/summary.h"

namespace nvrar::test {
namespace {

std::vector<uint8_t> bytes_of(const Message& message) {
  std::vector<uint8_t> bytes(message.count * element_bytes(message.data_type));
  for (uint64_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t word = mix(message.seed * 1000003 + i);
    std::memcpy(bytes.data() + i, &word, std::min<uint64_t>(sizeof word, bytes.size() - i));
  }
  return bytes;
}

nvrar_status one(int rank, nvrar_comm* comm, int32_t kind, int peer, std::span<uint8_t> memory, uint64_t count,
                 int32_t data_type) {
  Image image(rank, 0, memory);
  const nvrar_transfer transfer{sizeof(nvrar_transfer), kind, peer, data_type, image.address(), count};
  const nvrar_status status = settled(rank, comm, nvrar_batch(comm, &transfer, 1, stream_of(rank)));
  if (kind == NVRAR_RECV) image.fetch();  // after a failure, too: then nothing may have been written
  return status;
}

}  // namespace

RankBatch::RankBatch(int rank, const std::vector<Message>& messages, uint64_t seed) : rank_(rank) {
  std::vector<const Message*> left[2];  // recvs, sends
  for (const Message& message : messages) {
    if (message.destination == rank) left[0].push_back(&message);
    if (message.source == rank) left[1].push_back(&message);
  }
  size_t next[2] = {};
  for (uint64_t turn = 0; next[0] < left[0].size() || next[1] < left[1].size(); ++turn) {
    const uint64_t r = mix(seed + turn);
    bool sends = r % 2 == 0;
    if (next[sends] == left[sends].size()) sends = !sends;
    const Message& message = *left[sends][next[sends]++];
    const std::vector<uint8_t> bytes = bytes_of(message);
    const uint64_t size = element_bytes(message.data_type);
    auto buffer = std::make_unique<GuardedBuffer>(bytes.size(), (r >> 8) % 16 * size);
    if (sends && !bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
    const auto made = sends ? send_to(message.destination, buffer->address(), message.count, message.data_type)
                            : recv_from(message.source, buffer->address(), message.count, message.data_type);
    transfers_.push_back(made);
    parts_.push_back({message, sends, std::move(buffer)});
  }
}

nvrar_status RankBatch::run(nvrar_comm* comm) const {
  std::vector<nvrar_transfer> transfers = transfers_;
  std::vector<Image> images;
  uint64_t at = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    images.emplace_back(rank_, at, parts_[i].buffer.get());
    at = images.back().end();
    transfers[i].address = images.back().address(parts_[i].buffer->data());
  }
  const nvrar_status status = settled(
      rank_, comm, nvrar_batch(comm, transfers.data(), static_cast<uint32_t>(transfers.size()), stream_of(rank_)));
  for (Image& image : images) image.fetch();
  return status;
}

std::string RankBatch::fault() const {
  count_checked_call();
  for (const Part& part : parts_) {
    const std::vector<uint8_t> expected = bytes_of(part.message);
    std::string fault = difference(part.buffer->data(), expected.data(), expected.size());
    if (fault.empty() && !part.buffer->guards_intact()) fault = "a guard changed";
    if (!fault.empty()) {
      return (part.sends ? "send " : "recv ") + std::to_string(part.message.source) + " -> " +
             std::to_string(part.message.destination) + " of " +
             describe_elements(part.message.data_type, part.message.count) + ": " + fault;
    }
  }
  return "";
}

nvrar_status send_one(int rank, nvrar_comm* comm, int peer, const void* from, uint64_t count, int32_t data_type) {
  std::vector<uint8_t> bytes(count * element_bytes(data_type) + 1);  // also for none there is an address
  std::memcpy(bytes.data(), from, bytes.size() - 1);
  return one(rank, comm, NVRAR_SEND, peer, bytes, count, data_type);
}

nvrar_status recv_one(int rank, nvrar_comm* comm, int peer, void* to, uint64_t count, int32_t data_type) {
  std::vector<uint8_t> bytes(count * element_bytes(data_type) + 1);
  std::memcpy(bytes.data(), to, bytes.size() - 1);
  const nvrar_status status = one(rank, comm, NVRAR_RECV, peer, bytes, count, data_type);
  std::memcpy(to, bytes.data(), bytes.size() - 1);
  return status;
}

}  // namespace nvrar::test
