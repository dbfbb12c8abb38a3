// Sums of a packet's elements in the one order of protocol.md 10: within a node in rank order, then over the nodes
// level by level.
#pragma once

#include <nvrar.h>

#include <type_traits>

#include "protocol/element.h"
#include "protocol/topology.h"

namespace nvrar::cuda {

using protocol::Packet;
using protocol::Topology;

struct NoSums {
  struct Partial {};
};

// The elements of one packet's payload in their accumulator's type. The operator is tested for each packet: all threads
// take the same branch, and one kernel per operator would be five times the code.
template <class Element, uint32_t kBytes>
struct Accumulators {
  using Number = typename Element::Accumulator;
  using Bits = typename Element::Bits;
  static constexpr uint32_t kCount = kBytes / Element::kBytes;
  // The packets that they take when they are sent between nodes.
  static constexpr uint32_t kParts = protocol::kPartialParts<Element>;

  Number numbers[kCount];

  __device__ __forceinline__ static Accumulators of(const Packet& packet) {
    Accumulators result;
    const auto* const bits = reinterpret_cast<const Bits*>(&packet);
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) result.numbers[i] = Element::widen(bits[i]);
    return result;
  }
  template <class Op>
  __device__ __forceinline__ void combine_by(const Accumulators& other) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) numbers[i] = Op::apply(numbers[i], other.numbers[i]);
  }
  __device__ __forceinline__ void combine(int32_t op, const Accumulators& other) {
    switch (op) {
      case NVRAR_PRODUCT:
        return combine_by<protocol::Product>(other);
      case NVRAR_MAX:
        return combine_by<protocol::Max>(other);
      case NVRAR_MIN:
        return combine_by<protocol::Min>(other);
      default:
        return combine_by<protocol::Sum>(other);
    }
  }
  __device__ __forceinline__ Packet round(int32_t op, uint32_t world) const {
    Packet packet{};
    auto* const bits = reinterpret_cast<Bits*>(&packet);
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      Number number = numbers[i];
      if constexpr (Element::kFloat) {
        if (op == NVRAR_AVG) number = protocol::Avg::finish(number, world);
      }
      bits[i] = Element::narrow(number);
    }
    return packet;
  }

  struct Crossing {
    Packet packets[kParts];
  };
  __device__ __forceinline__ Crossing crossing() const {
    Crossing result{};
    auto* const to = reinterpret_cast<Number*>(result.packets);
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) to[place(i)] = numbers[i];
    return result;
  }
  __device__ __forceinline__ static Accumulators of_crossing(const Crossing& crossing) {
    Accumulators result;
    const auto* const from = reinterpret_cast<const Number*>(crossing.packets);
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) result.numbers[i] = from[place(i)];
    return result;
  }

 private:
  // Epoch packets have room for only kBytes.
  static constexpr uint32_t kPerPart = kCount / kParts;
  static constexpr uint32_t kPlacesPerPart = protocol::kPacketBytes / sizeof(Number);
  __device__ __forceinline__ static constexpr uint32_t place(uint32_t i) {
    return i / kPerPart * kPlacesPerPart + i % kPerPart;
  }
};

// Combines the packets of a topology's ranks, which are added in rank order. kNodes: whether the topology may have
// several nodes; the code for those is most of a kernel.
template <class Element, uint32_t kBytes, bool kNodes>
class Sums {
 public:
  using Values = Accumulators<Element, kBytes>;
  using Of = Element;
  using Partial = typename Values::Crossing;
  // Two ranks are added in one way, whether they share a node or not.
  using OfPair = Sums<Element, kBytes, false>;
  static constexpr uint32_t kPayloadBytes = kBytes;
  static constexpr uint32_t kParts = Values::kParts;

  __device__ __forceinline__ Sums(int32_t op, const Topology& topology) : op_(op), topology_(topology) {}

  __device__ __forceinline__ void add(const Packet& packet) {
    const Values values = Values::of(packet);
    if (begins_node()) {
      if constexpr (kNodes) {
        if (taken_ != 0) tree_.add(op_, node_);
      }
      node_ = values;
    } else {
      node_.combine(op_, values);
    }
    ++taken_;
  }
  __device__ __forceinline__ Packet result() {
    if constexpr (kNodes) {
      if (taken_ > topology_.largest) {
        tree_.add(op_, node_);
        node_ = tree_.total(op_);
      }
    }
    return node_.round(op_, topology_.world);
  }
  // Only if all ranks that were added are in one node.
  __device__ __forceinline__ Partial partial() const { return node_.crossing(); }
  __device__ __forceinline__ static Packet of_nodes(int32_t op, const Topology& topology, const Partial* of_nodes) {
    Tree tree;
    for (uint32_t node = 0; node < topology.nodes(); ++node) tree.add(op, Values::of_crossing(of_nodes[node]));
    return tree.total(op).round(op, topology.world);
  }

 private:
  // Combines 2i and 2i + 1, and passes an odd last one up unchanged. Adding the nodes in turn gives the same result if
  // each addition also combines all pairs that it completes. Level l holds the sum of 2^l nodes. It is in memory and
  // uses loops, because it is rarely needed and would be most of a kernel if it were unrolled.
  struct Tree {
    static constexpr uint32_t kLevels = 4;
    static_assert(1u << (kLevels - 1) >= protocol::kMaxRanks);
    Values levels[kLevels];
    uint32_t count = 0;

    __device__ __forceinline__ void add(int32_t op, Values values) {
      uint32_t level = 0;
#pragma unroll 1
      for (; (count >> level & 1) != 0; ++level) {
        Values both = levels[level];
        both.combine(op, values);
        values = both;
      }
      levels[level] = values;
      ++count;
    }
    // The highest level holds the sum of the first nodes.
    __device__ __forceinline__ Values total(int32_t op) const {
      uint32_t level = 0;
      while ((count >> level & 1) == 0) ++level;
      Values total = levels[level];
#pragma unroll 1
      for (++level; count >> level != 0; ++level) {
        if ((count >> level & 1) == 0) continue;
        Values both = levels[level];
        both.combine(op, total);
        total = both;
      }
      return total;
    }
  };

  struct NoTree {};

  __device__ __forceinline__ bool begins_node() const { return kNodes ? topology_.is_first(taken_) : taken_ == 0; }

  int32_t op_;
  Topology topology_;
  uint32_t taken_ = 0;
  Values node_;
  std::conditional_t<kNodes, Tree, NoTree> tree_;
};

}  // namespace nvrar::cuda
