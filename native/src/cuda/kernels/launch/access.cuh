// Loads and stores of packets and of user memory.
#pragma once

#include "kernels/launch/launched.cuh"
#include "protocol/packet.h"

namespace nvrar::cuda {

using protocol::Packet;

// Each is one 16-byte access, which is never torn and needs no fence to be visible to every device of the host.
__device__ __forceinline__ void store_packet(Packet* slot, Packet packet) {
  if (protocol::planted(protocol::Defect::kTornPackets)) return store_torn(slot, packet);
  asm volatile(
      "{.reg .b128 t; .reg .b64 a,b; mov.b64 a,{%1,%2}; mov.b64 b,{%3,%4}; mov.b128 t,{a,b};"
      " st.relaxed.sys.global.b128 [%0],t;}" ::"l"(slot),
      "r"(packet[0]), "r"(packet[1]), "r"(packet[2]), "r"(packet[3])
      : "memory");
}
__device__ __forceinline__ Packet load_packet(const Packet* slot) {
  Packet packet;
  asm volatile(
      "{.reg .b128 t; .reg .b64 a,b; ld.relaxed.sys.global.b128 t,[%4]; mov.b128 {a,b},t;"
      " mov.b64 {%0,%1},a; mov.b64 {%2,%3},b;}"
      : "=r"(packet[0]), "=r"(packet[1]), "=r"(packet[2]), "=r"(packet[3])
      : "l"(slot)
      : "memory");
  return packet;
}

// Two words of 8 bytes that are loaded and stored together, as one packet.
template <class Pair>
__device__ __forceinline__ void store_pair(Pair* to, uint64_t first, uint64_t second) {
  static_assert(sizeof(Pair) == protocol::kPacketBytes && alignof(Pair) == protocol::kPacketBytes);
  asm volatile("{.reg .b128 t; mov.b128 t,{%1,%2}; st.relaxed.sys.global.b128 [%0],t;}" ::"l"(to), "l"(first),
               "l"(second)
               : "memory");
}
template <class Pair>
__device__ __forceinline__ Pair load_pair(const Pair* from) {
  static_assert(sizeof(Pair) == protocol::kPacketBytes && alignof(Pair) == protocol::kPacketBytes);
  uint64_t first, second;
  asm volatile("{.reg .b128 t; ld.relaxed.sys.global.b128 t,[%2]; mov.b128 {%0,%1},t;}"
               : "=l"(first), "=l"(second)
               : "l"(from)
               : "memory");
  return {first, second};
}

// Stores into a rank's rings.
__device__ __forceinline__ void send_packet(const KernelArgs& args, Packet* slot, Packet packet) {
  pass_moment(args, protocol::Moment::kSends, slot);
  store_packet(slot, packet);
}
template <class Word>
__device__ __forceinline__ Word load_word(const Word* from) {
  return *reinterpret_cast<const volatile Word*>(from);
}

// Loads a packet of user memory, or zeros where there is none. Without a branch, which the compiler would follow with
// two copies of the rest of the kernel. kAtOnce: ptxas must not put the load off until the others of the entry have
// returned, as it does with a normal one to save registers.
template <bool kAtOnce>
__device__ __forceinline__ Packet load_input(const uint8_t* from, bool exists) {
  Packet packet;
  if (kAtOnce) {
    asm volatile(
        "{.reg .pred p; .reg .b128 t; .reg .b64 a,b; setp.ne.u32 p,%5,0; mov.b64 a,0; mov.b128 t,{a,a};"
        " @p ld.relaxed.gpu.global.b128 t,[%4]; mov.b128 {a,b},t; mov.b64 {%0,%1},a; mov.b64 {%2,%3},b;}"
        : "=&r"(packet[0]), "=&r"(packet[1]), "=&r"(packet[2]), "=&r"(packet[3])
        : "l"(from), "r"(static_cast<uint32_t>(exists))
        : "memory");
  } else {
    asm volatile(
        "{.reg .pred p; setp.ne.u32 p,%5,0; mov.u32 %0,0; mov.u32 %1,0; mov.u32 %2,0; mov.u32 %3,0;"
        " @p ld.global.v4.u32 {%0,%1,%2,%3},[%4];}"
        : "=&r"(packet[0]), "=&r"(packet[1]), "=&r"(packet[2]), "=&r"(packet[3])
        : "l"(from), "r"(static_cast<uint32_t>(exists))
        : "memory");
  }
  return packet;
}

// The same for a word.
template <bool kAtOnce>
__device__ __forceinline__ uint32_t load_input_word(const uint8_t* from, bool exists) {
  static_assert(kAtOnce);
  uint32_t word;
  asm volatile("{.reg .pred p; setp.ne.u32 p,%2,0; mov.u32 %0,0; @p ld.relaxed.gpu.global.u32 %0,[%1];}"
               : "=&r"(word)
               : "l"(from), "r"(static_cast<uint32_t>(exists))
               : "memory");
  return word;
}

// Accesses user memory in units of Word; `bytes` must be a multiple of its size.
template <class Word>
__device__ __forceinline__ void load_words(const uint8_t* from, uint8_t* to, uint32_t bytes) {
#pragma unroll
  for (uint32_t i = 0; i < protocol::kPacketBytes / sizeof(Word); ++i) {
    if (i * sizeof(Word) < bytes) reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
}

// Loads up to kBytes bytes at `from`, of any alignment. Only `bytes` of them exist; the rest is 0.
template <uint32_t kBytes>
__device__ __forceinline__ Packet load_user(const uint8_t* from, uint32_t bytes) {
  Packet packet{};
  auto* const to = reinterpret_cast<uint8_t*>(&packet);
  const auto address = reinterpret_cast<uint64_t>(from) | bytes;
  if (kBytes == 16 && address % 16 == 0) {
    load_words<uint4>(from, to, bytes);
  } else if (address % 8 == 0) {
    load_words<uint64_t>(from, to, bytes);
  } else if (address % 4 == 0) {
    load_words<uint32_t>(from, to, bytes);
  } else if (address % 2 == 0) {
    load_words<uint16_t>(from, to, bytes);
  } else {
    load_words<uint8_t>(from, to, bytes);
  }
  return packet;
}
template <class Word>
__device__ __forceinline__ void store_words(uint8_t* to, const uint8_t* from, uint32_t bytes) {
#pragma unroll
  for (uint32_t i = 0; i < protocol::kPacketBytes / sizeof(Word); ++i) {
    if (i * sizeof(Word) < bytes) reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
}
template <uint32_t kBytes>
__device__ __forceinline__ void store_user(uint8_t* to, const Packet& packet, uint32_t bytes) {
  if (protocol::planted(protocol::Defect::kDroppedRest) && bytes < kBytes) return;
  const auto* const from = reinterpret_cast<const uint8_t*>(&packet);
  const auto address = reinterpret_cast<uint64_t>(to) | bytes;
  if (kBytes == 16 && address % 16 == 0) {
    store_words<uint4>(to, from, bytes);
  } else if (address % 8 == 0) {
    store_words<uint64_t>(to, from, bytes);
  } else if (address % 4 == 0) {
    store_words<uint32_t>(to, from, bytes);
  } else if (address % 2 == 0) {
    store_words<uint16_t>(to, from, bytes);
  } else {
    store_words<uint8_t>(to, from, bytes);
  }
}

__device__ __forceinline__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace nvrar::cuda
