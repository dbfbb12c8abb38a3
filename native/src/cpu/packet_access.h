// Atomic access to packets on the host.
#ifndef NVRAR_CPU_PACKET_ACCESS_H
#define NVRAR_CPU_PACKET_ACCESS_H

#include "protocol/packet.h"

#if !defined(__x86_64__)
#error \
    "Packets need 16-byte atomic stores and loads in total store order. x86-64 with AVX has both; arm64 needs LSE2 pairs with acquire and release, and nobody has written and tested them yet."
#endif

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace nvrar::cpu {

// Code for AVX must not mix in the older encoding: some CPUs pay for each change between the two. (GCC's %v would
// choose it, which clang does not know.)
#if defined(__AVX__)
#define NVRAR_MOVE_PACKET "vmovdqa"
#else
#define NVRAR_MOVE_PACKET "movdqa"
#endif

// One aligned 16-byte SSE access: Intel (SDM 3A 9.1.1) and AMD guarantee its atomicity on every CPU with AVX. The
// "memory" clobber keeps the compiler from moving user data across it; the CPU keeps stores in order, and loads in
// order.
inline __attribute__((always_inline)) void store_packet(protocol::Packet* slot, protocol::Packet packet) {
  if (protocol::planted(protocol::Defect::kTornPackets)) {
    auto* const words = reinterpret_cast<volatile uint32_t*>(slot);
    for (int i = 0; i < 4; ++i) words[i] = packet[i];
    return;
  }
  asm volatile(NVRAR_MOVE_PACKET " %1, %0" : "=m"(*slot) : "x"(packet) : "memory");
}

inline __attribute__((always_inline)) protocol::Packet load_packet(const protocol::Packet* slot) {
  protocol::Packet packet;
  asm volatile(NVRAR_MOVE_PACKET " %1, %0" : "=x"(packet) : "m"(*slot) : "memory");
  return packet;
}

// The part of a packet that says whether it has arrived, by a load of that part alone. The comparison is written out
// because compilers load a volatile word first: two instructions a packet, of a handful.
template <class Packets>
inline __attribute__((always_inline)) bool packet_arrived(const protocol::Packet* slot, uint64_t epoch) {
  bool equal;
  if constexpr (Packets::kMustClear) {
    asm volatile("cmpl %2, %1"
                 : "=@cce"(equal)
                 : "m"(reinterpret_cast<const uint32_t*>(slot)[3]), "i"(static_cast<int32_t>(Packets::kEmptyWord))
                 : "memory");
    return !equal;
  } else {
    asm volatile("cmpq %2, %1"
                 : "=@cce"(equal)
                 : "m"(reinterpret_cast<const uint64_t*>(slot)[1]), "r"(epoch)
                 : "memory");
    return equal;
  }
}

// Brings the line to this core, to be written: for an empty hint where the CPU does not know it. Without it the stores
// of a message wait for one line after the other: twice the time where two cores share no cache but the last.
inline void prefetch_to_write(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}
inline void prefetch_to_read(const void* line) { __builtin_prefetch(line, 0, 3); }

// Orders earlier stores before later loads, the one order that x86-64 does not keep. An assembler instruction and not
// std::atomic_thread_fence, which the thread sanitizer refuses; a locked add is quicker than mfence.
inline void full_fence() { asm volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc"); }

inline void cpu_relax() { asm volatile("pause" ::: "memory"); }

// A packet carries the sender's happens-before to the receiver. The sanitizer cannot see that in the accesses above,
// and two mappings of one segment have two addresses: `name` is the address in the owner's mapping.
inline __attribute__((always_inline)) void announce_packet_sent([[maybe_unused]] uint64_t name) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(reinterpret_cast<void*>(name));
#endif
}
inline __attribute__((always_inline)) void announce_packet_taken([[maybe_unused]] uint64_t name) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(reinterpret_cast<void*>(name));
#endif
}

}  // namespace nvrar::cpu

#endif  // NVRAR_CPU_PACKET_ACCESS_H
