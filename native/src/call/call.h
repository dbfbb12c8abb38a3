// One collective call as the caller made it, its checks, and its description in messages.
#ifndef NVRAR_CALL_CALL_H
#define NVRAR_CALL_CALL_H

#include <nvrar.h>

#include <string>

#include "call/element_type.h"
#include "common/error.h"
#include "protocol/topology.h"

namespace nvrar {

constexpr int32_t kNoOp = -1;
constexpr int32_t kNoRoot = -1;
constexpr int32_t kNoType = -1;

struct Fusion;
struct TopK;

struct Call {
  int32_t collective = 0;
  uint64_t send = 0;
  uint64_t recv = 0;
  uint64_t count = 0;
  int32_t data_type = kNoType;
  int32_t op = kNoOp;
  int32_t root = kNoRoot;
  int32_t algorithm = NVRAR_ALGORITHM_AUTO;  // the caller's choice
  const Fusion* fusion = nullptr;            // of a fused all-reduce
  const TopK* top_k = nullptr;               // of an all-gather of its keys,
  uint32_t first_row = 0;                    // ... of rows from this one on
};

// "float32[1024]"
std::string describe_elements(int32_t data_type, uint64_t count);

// A range of user memory.
struct Range {
  uint64_t begin;
  uint64_t bytes;
};
bool overlap(Range a, Range b) noexcept;
// Why no elements of this alignment can lie there, as the end of a sentence; "" if they can.
std::string range_fault(uint64_t address, uint64_t bytes, uint32_t align);
// Throws NVRAR_INVALID_ARGUMENT; the message starts with name() and states the reason.
template <class Name>
Range check_range(Name name, uint64_t address, uint64_t bytes, uint32_t align) {
  if (const std::string fault = range_fault(address, bytes, align); !fault.empty()) [[unlikely]]
    throw Error(NVRAR_INVALID_ARGUMENT, name() + fault);
  return {address, bytes};
}

// How much this rank's part of a call that has passed check_call reads at send, and writes at recv. A buffer of 0 bytes
// is not looked at, whatever it is: it is refused on no rank.
struct BufferBytes {
  uint64_t send;
  uint64_t recv;
};
BufferBytes buffer_bytes(const Call& call, uint32_t rank, uint32_t world) noexcept;

// Throws NVRAR_INVALID_ARGUMENT with the reason. A call that passes accesses only memory that the caller named.
void check_call(const Call& call, uint32_t rank, const protocol::Topology& topology);

// "allReduce #41 float32[1024] SUM (two-shot, 3 launches)"
std::string describe(const nvrar_call& call);

}  // namespace nvrar

#endif  // NVRAR_CALL_CALL_H
