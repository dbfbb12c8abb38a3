#include "call/call.h"

#include <algorithm>
#include <limits>

#include "call/fusion.h"
#include "common/error.h"

namespace nvrar {
namespace {

// The names of the Java API, because a message should name the method that the user called.
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

const char* algorithm_name(int32_t algorithm) noexcept {
  switch (algorithm) {
    case NVRAR_ALGORITHM_ONE_SHOT:
      return "one-shot";
    case NVRAR_ALGORITHM_TWO_SHOT:
      return "two-shot";
    case NVRAR_ALGORITHM_HIERARCHICAL:
      return "hierarchical";
    default:
      return nullptr;
  }
}

bool reduces(int32_t collective) noexcept {
  return collective == NVRAR_ALL_REDUCE || collective == NVRAR_REDUCE || collective == NVRAR_REDUCE_SCATTER;
}
bool has_root(int32_t collective) noexcept { return collective == NVRAR_BROADCAST || collective == NVRAR_REDUCE; }

// The buffers of a rank, in parts of count elements. If exactly one of the two buffers has a part for each rank, "in
// place" means that the other buffer is this rank's part of it.
struct Shape {
  uint64_t send_parts;  // 0: not read
  uint64_t recv_parts;  // 0: not written
};

Shape shape_of(const Call& call, uint32_t rank, uint32_t world) noexcept {
  const bool root = static_cast<uint32_t>(call.root) == rank;
  switch (call.collective) {
    case NVRAR_ALL_GATHER:
      return {1, world};
    case NVRAR_REDUCE_SCATTER:
      return {world, 1};
    case NVRAR_ALL_TO_ALL:
      return {world, world};
    case NVRAR_BROADCAST:
      return {root ? uint64_t{1} : 0, 1};
    case NVRAR_REDUCE:
      return {1, root ? uint64_t{1} : 0};
    default:
      return {1, 1};
  }
}

// " (two-shot, 3 launches)"; "" if there is nothing to add.
std::string describe_plan(const nvrar_call& call) {
  const char* const name = algorithm_name(call.algorithm);
  std::string text = name == nullptr ? "" : name;
  if (call.launches > 1) text += (text.empty() ? "" : ", ") + std::to_string(call.launches) + " launches";
  return text.empty() ? "" : " (" + text + ")";
}

// "bfloat16[4 x 8192]": rows of a fused all-reduce.
std::string describe_rows(const nvrar_call& call) {
  return name_or_code(element_type(call.data_type).name, "type", call.data_type) + "[" +
         std::to_string(call.count / call.hidden) + " x " + std::to_string(call.hidden) + "]";
}

void check_algorithm(int32_t algorithm, const protocol::Topology& topology) {
  if (algorithm != NVRAR_ALGORITHM_AUTO && algorithm_name(algorithm) == nullptr) {
    invalid("there is no algorithm " + std::to_string(algorithm));
  }
  if (algorithm == NVRAR_ALGORITHM_HIERARCHICAL && topology.nodes() == 1) {
    invalid("the hierarchical algorithm needs more than one node, and this group's " + std::to_string(topology.world) +
            (topology.world == 1 ? " rank is" : " ranks are") + " in one");
  }
}

void check_codes(const Call& call, const protocol::Topology& topology) {
  if (element_bytes(call.data_type) == 0) invalid("there is no data type " + std::to_string(call.data_type));
  if (reduces(call.collective) && op_name(call.op) == nullptr) {
    invalid("there is no reduction operator " + std::to_string(call.op));
  }
  if (call.op == NVRAR_AVG && !element_type(call.data_type).is_float) {
    invalid(std::string("AVG is for floats, and the elements are ") + element_type(call.data_type).name);
  }
  if (has_root(call.collective) && (call.root < 0 || static_cast<uint32_t>(call.root) >= topology.world)) {
    invalid("root " + std::to_string(call.root) + " is not a rank of a group of " + std::to_string(topology.world));
  }
  check_algorithm(call.algorithm, topology);
}

}  // namespace

bool overlap(Range a, Range b) noexcept { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }

std::string range_fault(uint64_t address, uint64_t bytes, uint32_t align) {
  if (address == 0) return " is null";
  if (address % align != 0) return " is not aligned to the element's " + std::to_string(align) + " bytes";
  if (address > std::numeric_limits<uint64_t>::max() - bytes) {
    return " and the count reach past the end of the address space";
  }
  return "";
}

BufferBytes buffer_bytes(const Call& call, uint32_t rank, uint32_t world) noexcept {
  const uint64_t part = call.count * element_bytes(call.data_type);
  const Shape shape = shape_of(call, rank, world);
  return {part * shape.send_parts, part * shape.recv_parts};
}

void check_call(const Call& call, uint32_t rank, const protocol::Topology& topology) {
  if (call.collective == NVRAR_BARRIER) return;
  check_codes(call, topology);
  if (call.fusion != nullptr) return check_fusion(call);
  if (call.count == 0) return;

  const uint32_t size = element_bytes(call.data_type);
  const Shape shape = shape_of(call, rank, topology.world);
  if (call.count > std::numeric_limits<uint64_t>::max() / size / std::max(shape.send_parts, shape.recv_parts)) {
    invalid("a count of " + std::to_string(call.count) + " elements does not fit into the address space");
  }
  const uint64_t bytes = call.count * size;
  const auto name = [](const char* of) { return [of] { return std::string(of); }; };
  Range send{};
  Range recv{};
  if (shape.recv_parts != 0) recv = check_range(name("recv"), call.recv, bytes * shape.recv_parts, size);
  if (shape.send_parts != 0) send = check_range(name("send"), call.send, bytes * shape.send_parts, size);
  if (shape.recv_parts == 0 || shape.send_parts == 0 || !overlap(send, recv)) return;

  const uint64_t send_part = shape.send_parts > shape.recv_parts ? rank * bytes : 0;
  const uint64_t recv_part = shape.recv_parts > shape.send_parts ? rank * bytes : 0;
  if (send.begin + send_part == recv.begin + recv_part) return;
  if (recv_part == send_part && shape.send_parts == shape.recv_parts) {
    invalid("send and recv overlap, and are not the same address");
  }
  invalid(shape.recv_parts > shape.send_parts ? "send and recv overlap, and send is not this rank's part of recv"
                                              : "send and recv overlap, and recv is not this rank's part of send");
}

std::string describe_elements(int32_t data_type, uint64_t count) {
  return name_or_code(element_type(data_type).name, "type", data_type) + "[" + std::to_string(count) + "]";
}

std::string describe(const nvrar_call& call) {
  std::string text = name_or_code(collective_name(call.collective), "collective", call.collective);
  text += " #" + std::to_string(call.sequence);
  if (call.collective == NVRAR_BARRIER) return text;
  text += " " + (call.hidden != 0 ? describe_rows(call) : describe_elements(call.data_type, call.count));
  if (reduces(call.collective)) text += " " + name_or_code(op_name(call.op), "op", call.op);
  if (call.fusion != 0) text += describe_form(call.fusion);
  if (call.collective == NVRAR_BROADCAST) text += " from root " + std::to_string(call.root);
  if (call.collective == NVRAR_REDUCE) text += " to root " + std::to_string(call.root);
  if (call.collective == NVRAR_SEND) text += " to rank " + std::to_string(call.root);
  if (call.collective == NVRAR_RECV) text += " from rank " + std::to_string(call.root);
  if (call.transfers > 1) text += " in a batch of " + std::to_string(call.transfers);
  return text + describe_plan(call);
}

}  // namespace nvrar
