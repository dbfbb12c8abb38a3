#include "call/batch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/error.h"

namespace nvrar {
namespace {

[[noreturn]] void invalid(const std::string& sentence) { throw Error(NVRAR_INVALID_ARGUMENT, sentence); }

// "transfer 3 of the batch" counts from 0, like the array.
std::string name_of(const nvrar_transfer& transfer, uint32_t index, uint32_t count) {
  const std::string kind = transfer.kind == NVRAR_SEND ? "send" : "recv";
  const std::string peer = (transfer.kind == NVRAR_SEND ? " to rank " : " from rank ") + std::to_string(transfer.peer);
  return "the " + kind + peer + (count > 1 ? " (transfer " + std::to_string(index) + " of the batch)" : "");
}

Range check_transfer(const nvrar_transfer& transfer, uint32_t index, uint32_t count, uint32_t world) {
  if (transfer.kind != NVRAR_SEND && transfer.kind != NVRAR_RECV) {
    invalid("transfer " + std::to_string(index) + " of the batch is of kind " + std::to_string(transfer.kind) +
            ", which is neither send nor recv");
  }
  const auto name = [&] { return name_of(transfer, index, count); };  // only for messages: it allocates
  if (transfer.peer < 0 || static_cast<uint32_t>(transfer.peer) >= world) {
    invalid(name() + ": that is not a rank of a group of " + std::to_string(world));
  }
  const uint32_t size = element_bytes(transfer.data_type);
  if (size == 0) invalid(name() + ": there is no data type " + std::to_string(transfer.data_type));
  if (transfer.count == 0) return {0, 0};
  if (transfer.count > std::numeric_limits<uint64_t>::max() / size) {
    invalid(name() + ": a count of " + std::to_string(transfer.count) +
            " elements does not fit into the address space");
  }
  return check_range([&] { return name() + ": its address"; }, transfer.address, transfer.count * size, size);
}

// A buffer that is received into may not overlap any other buffer.
void check_overlaps(BatchRoom& buffers, const nvrar_transfer* transfers, uint32_t count) {
  std::sort(buffers.begin(), buffers.end(),
            [](const BatchBuffer& a, const BatchBuffer& b) { return a.range.begin < b.range.begin; });
  const BatchBuffer* last_recv = nullptr;  // the recv so far that ends last; `last`: likewise among all buffers
  const BatchBuffer* last = nullptr;
  const auto end = [](const BatchBuffer* buffer) { return buffer->range.begin + buffer->range.bytes; };
  for (const BatchBuffer& buffer : buffers) {
    const bool recv = transfers[buffer.index].kind == NVRAR_RECV;
    const BatchBuffer* const before = recv ? last : last_recv;
    if (before != nullptr && buffer.range.begin < end(before)) {
      invalid(name_of(transfers[before->index], before->index, count) + " and " +
              name_of(transfers[buffer.index], buffer.index, count) + " overlap");
    }
    if (last == nullptr || end(&buffer) > end(last)) last = &buffer;
    if (recv && (last_recv == nullptr || end(&buffer) > end(last_recv))) last_recv = &buffer;
  }
}

void check_own(const nvrar_transfer* transfers, uint32_t count, uint32_t rank) {
  const auto next = [&](uint32_t from, int32_t kind) {
    while (from < count && (transfers[from].kind != kind || static_cast<uint32_t>(transfers[from].peer) != rank)) {
      ++from;
    }
    return from;
  };
  uint32_t send = next(0, NVRAR_SEND);
  uint32_t recv = next(0, NVRAR_RECV);
  for (; send < count && recv < count; send = next(send + 1, NVRAR_SEND), recv = next(recv + 1, NVRAR_RECV)) {
    const nvrar_transfer& from = transfers[send];
    const nvrar_transfer& to = transfers[recv];
    if (from.count != to.count || from.data_type != to.data_type) {
      invalid(name_of(from, send, count) + " itself is of " + describe_elements(from.data_type, from.count) +
              ", its recv of " + describe_elements(to.data_type, to.count));
    }
  }
  if (send < count || recv < count) {
    const uint32_t alone = std::min(send, recv);
    invalid(name_of(transfers[alone], alone, count) + " itself has no " + (send < count ? "recv" : "send") +
            " in the same batch");
  }
}

}  // namespace

void check_batch(const nvrar_transfer* transfers, uint32_t count, uint32_t rank, uint32_t world, BatchRoom* room) {
  bool own = false;
  BatchRoom& buffers = *room;
  buffers.clear();
  if (count > 1) buffers.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Range range = check_transfer(transfers[i], i, count, world);
    if (count > 1 && range.bytes != 0) buffers.push_back({range, i});
    own = own || static_cast<uint32_t>(transfers[i].peer) == rank;
  }
  check_overlaps(buffers, transfers, count);
  if (own) check_own(transfers, count, rank);
}

}  // namespace nvrar
