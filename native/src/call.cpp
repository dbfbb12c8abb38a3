#include "call.h"

#include <limits>

#include "error.h"

namespace nvrar {
namespace {

// The names of the Java API: a message names the method that the user called.
const char* collective_name(int32_t collective) noexcept {
  switch (collective) {
    case NVRAR_ALL_REDUCE:
      return "allReduce";
    case NVRAR_ALL_GATHER:
      return "allGather";
    case NVRAR_BROADCAST:
      return "broadcast";
    case NVRAR_BARRIER:
      return "barrier";
    case NVRAR_REDUCE:
      return "reduce";
    case NVRAR_REDUCE_SCATTER:
      return "reduceScatter";
    case NVRAR_ALL_TO_ALL:
      return "allToAll";
    case NVRAR_SEND:
      return "send";
    case NVRAR_RECV:
      return "recv";
    default:
      return nullptr;
  }
}

const char* type_name(int32_t data_type) noexcept {
  switch (data_type) {
    case NVRAR_INT8:
      return "int8";
    case NVRAR_UINT8:
      return "uint8";
    case NVRAR_INT32:
      return "int32";
    case NVRAR_INT64:
      return "int64";
    case NVRAR_FLOAT16:
      return "float16";
    case NVRAR_FLOAT32:
      return "float32";
    case NVRAR_FLOAT64:
      return "float64";
    case NVRAR_BFLOAT16:
      return "bfloat16";
    default:
      return nullptr;
  }
}

bool is_float(int32_t data_type) noexcept {
  return data_type == NVRAR_FLOAT16 || data_type == NVRAR_BFLOAT16 || data_type == NVRAR_FLOAT32 ||
         data_type == NVRAR_FLOAT64;
}

const char* op_name(int32_t op) noexcept {
  switch (op) {
    case NVRAR_SUM:
      return "SUM";
    case NVRAR_PRODUCT:
      return "PRODUCT";
    case NVRAR_MAX:
      return "MAX";
    case NVRAR_MIN:
      return "MIN";
    case NVRAR_AVG:
      return "AVG";
    default:
      return nullptr;
  }
}

std::string name_or_code(const char* name, const char* what, int32_t code) {
  return name != nullptr ? name : std::string(what) + " " + std::to_string(code);
}

[[noreturn]] void invalid(const std::string& sentence) { throw Error(NVRAR_INVALID_ARGUMENT, sentence); }

struct Range {
  uint64_t begin;
  uint64_t bytes;
};

bool overlap(Range a, Range b) noexcept { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }

Range check_range(const char* name, uint64_t address, uint64_t bytes, uint32_t align) {
  if (address == 0) invalid(std::string(name) + " is null");
  if (address % align != 0) {
    invalid(std::string(name) + " is not aligned to the element's " + std::to_string(align) + " bytes");
  }
  if (address > std::numeric_limits<uint64_t>::max() - bytes) {
    invalid(std::string(name) + " and the count reach past the end of the address space");
  }
  return {address, bytes};
}

}  // namespace

uint32_t element_bytes(int32_t data_type) noexcept {
  switch (data_type) {
    case NVRAR_INT64:
    case NVRAR_FLOAT64:
      return 8;
    case NVRAR_INT32:
    case NVRAR_FLOAT32:
      return 4;
    case NVRAR_FLOAT16:
    case NVRAR_BFLOAT16:
      return 2;
    case NVRAR_INT8:
    case NVRAR_UINT8:
      return 1;
    default:
      return 0;
  }
}

void check_call(const Call& call, uint32_t rank, uint32_t world) {
  if (call.collective == NVRAR_BARRIER) return;
  const uint32_t size = element_bytes(call.data_type);
  if (size == 0) invalid("there is no data type " + std::to_string(call.data_type));
  if (call.collective == NVRAR_ALL_REDUCE && op_name(call.op) == nullptr) {
    invalid("there is no reduction operator " + std::to_string(call.op));
  }
  if (call.op == NVRAR_AVG && !is_float(call.data_type)) {
    invalid(std::string("AVG is for floats, and the elements are ") + type_name(call.data_type));
  }
  if (call.collective == NVRAR_BROADCAST && (call.root < 0 || static_cast<uint32_t>(call.root) >= world)) {
    invalid("root " + std::to_string(call.root) + " is not a rank of a group of " + std::to_string(world));
  }
  if (call.count == 0) return;

  const uint64_t recv_parts = call.collective == NVRAR_ALL_GATHER ? world : 1;
  if (call.count > std::numeric_limits<uint64_t>::max() / size / recv_parts) {
    invalid("a count of " + std::to_string(call.count) + " elements does not fit into the address space");
  }
  const uint64_t bytes = call.count * size;
  const Range recv = check_range("recv", call.recv, bytes * recv_parts, size);
  if (call.collective == NVRAR_BROADCAST && static_cast<uint32_t>(call.root) != rank) return;
  const Range send = check_range("send", call.send, bytes, size);
  const uint64_t in_place = call.collective == NVRAR_ALL_GATHER ? recv.begin + rank * bytes : recv.begin;
  if (send.begin != in_place && overlap(send, recv)) {
    invalid(call.collective == NVRAR_ALL_GATHER ? "send and recv overlap, and send is not this rank's part of recv"
                                                : "send and recv overlap, and are not the same address");
  }
}

std::string describe(const nvrar_call& call) {
  std::string text = name_or_code(collective_name(call.collective), "collective", call.collective);
  text += " #" + std::to_string(call.sequence);
  if (call.collective == NVRAR_BARRIER) return text;
  text +=
      " " + name_or_code(type_name(call.data_type), "type", call.data_type) + "[" + std::to_string(call.count) + "]";
  if (call.collective == NVRAR_ALL_REDUCE) text += " " + name_or_code(op_name(call.op), "op", call.op);
  if (call.collective == NVRAR_BROADCAST) text += " from root " + std::to_string(call.root);
  return text;
}

}  // namespace nvrar
