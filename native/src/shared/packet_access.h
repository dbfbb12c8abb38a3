// Atomic access to packets on the host.
#ifndef NVRAR_SHARED_PACKET_ACCESS_H
#define NVRAR_SHARED_PACKET_ACCESS_H

#include "protocol/packet.h"

#if !defined(__x86_64__)
#error \
    "Packets need 16-byte atomic stores and loads in total store order. x86-64 with AVX has both; arm64 needs LSE2 pairs with acquire and release, and nobody has written and tested them yet."
#endif

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace nvrar::shared {

// Code for AVX must not mix in instructions of the older encoding, because some CPUs pay for each transition between
// the two. (GCC's %v would choose the encoding, but clang does not have it.)
#if defined(__AVX__)
#define NVRAR_MOVE_PACKET "vmovdqa"
#else
#define NVRAR_MOVE_PACKET "movdqa"
#endif

// One aligned 16-byte SSE access, whose atomicity Intel (SDM 3A 9.1.1) and AMD guarantee on every CPU with AVX. The
// "memory" clobber prevents the compiler from moving accesses to user data across it. The CPU keeps the order of stores
// among themselves, and that of loads.
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

// Loads only the part of a packet that tells whether it has arrived. The comparison is written in assembly, because
// compilers load a volatile word into a register first, which costs two more instructions where a packet takes only a
// handful.
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

// Fetches the line into this core's cache for writing; on a CPU without this instruction it is a no-op. Without it, the
// stores of a message wait for one line after the other, which takes twice the time if two cores share only the
// last-level cache.
inline void prefetch_to_write(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}
inline void prefetch_to_read(const void* line) { __builtin_prefetch(line, 0, 3); }

// Orders earlier stores before later loads, the only order that x86-64 does not keep. This is not
// std::atomic_thread_fence, because the thread sanitizer rejects that; a locked add is faster than mfence.
inline void full_fence() { asm volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc"); }

inline void cpu_relax() { asm volatile("pause" ::: "memory"); }

// A packet establishes happens-before between its sender and its receiver. The sanitizer cannot see that in the
// accesses above, and two mappings of one segment have different addresses: `name` is the address in the owner's
// mapping.
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

}  // namespace nvrar::shared

#endif  // NVRAR_SHARED_PACKET_ACCESS_H
