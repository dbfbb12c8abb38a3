// A kernel for each rule of sass_check.py that breaks it, and one that breaks none.
#include <stdint.h>

#include "protocol/packet.h"

namespace {

using nvrar::protocol::Packet;

// Of type b128: a vector of words the compiler splits where some of them are not used.
__device__ __forceinline__ Packet load(const Packet* slot) {
  Packet packet;
  asm volatile(
      "{.reg .b128 t; .reg .b64 a, b; ld.relaxed.sys.global.b128 t, [%4]; mov.b128 {a, b}, t;"
      " mov.b64 {%0, %1}, a; mov.b64 {%2, %3}, b;}"
      : "=r"(packet[0]), "=r"(packet[1]), "=r"(packet[2]), "=r"(packet[3])
      : "l"(slot)
      : "memory");
  return packet;
}
__device__ __forceinline__ void store(Packet* slot, const Packet& packet) {
  asm volatile(
      "{.reg .b128 t; .reg .b64 a, b; mov.b64 a, {%1, %2}; mov.b64 b, {%3, %4}; mov.b128 t, {a, b};"
      " st.relaxed.sys.global.b128 [%0], t;}" ::"l"(slot),
      "r"(packet[0]), "r"(packet[1]), "r"(packet[2]), "r"(packet[3])
      : "memory");
}

}  // namespace

extern "C" __global__ void clean(Packet* slots) { store(slots + threadIdx.x, load(slots)); }

// Loads that the compiler may serve from the first-level cache.
extern "C" __global__ void weak_load(Packet* slots) { store(slots + threadIdx.x, slots[1]); }

extern "C" __global__ void no_wait(Packet* slots) { store(slots + threadIdx.x, load(slots)); }

__device__ __forceinline__ void wait_for_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

extern "C" __global__ void batched(Packet* slots) {
  wait_for_launch();
  const Packet one = load(slots + threadIdx.x);
  Packet both = load(slots + threadIdx.x + 32);
  both[0] += one[0] + one[1] + one[2] + one[3];
  store(slots + threadIdx.x, both);
}

// Where the second is, the first one says.
extern "C" __global__ void unbatched(Packet* slots) {
  wait_for_launch();
  const Packet one = load(slots + threadIdx.x);
  Packet both = load(slots + one[0]);
  both[0] += one[1] + one[2] + one[3];
  store(slots + threadIdx.x, both);
}

// Two accesses where one is meant.
extern "C" __global__ void split_load(Packet* slots) {
  Packet packet{};
  asm volatile("{.reg .b32 b, c; ld.relaxed.sys.global.v4.u32 {%0, b, c, %1}, [%2];}"
               : "=r"(packet[0]), "=r"(packet[3])
               : "l"(slots)
               : "memory");
  store(slots + threadIdx.x, packet);
}

// Whole for the reader only by luck.
extern "C" __global__ void torn_store(Packet* slots) {
  const Packet packet = load(slots);
  for (int i = 0; i < 4; ++i) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&slots[threadIdx.x].words[i]), "r"(packet[i]) : "memory");
  }
}

extern "C" __global__ void system_fence(Packet* slots) {
  const Packet packet = load(slots);
  __threadfence_system();
  store(slots + threadIdx.x, packet);
}

extern "C" __global__ void device_fence(Packet* slots) {
  const Packet packet = load(slots);
  __threadfence();
  store(slots + threadIdx.x, packet);
}

// What follows it throws the first-level cache away.
extern "C" __global__ void acquire(Packet* slots, uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  Packet packet = load(slots);
  packet[0] += value;
  store(slots + threadIdx.x, packet);
}

// An array that no register can hold, because its index is not known.
extern "C" __global__ void local_array(Packet* slots, uint32_t count) {
  uint32_t words[64];
#pragma unroll 1
  for (uint32_t i = 0; i < count; ++i) words[i] = load(slots + i)[0];
  Packet packet = load(slots);
  packet[0] = words[packet[1] % 64];
  store(slots + threadIdx.x, packet);
}

// More values alive than the launch bounds leave registers for.
extern "C" __global__ void __launch_bounds__(1024, 2) spills(Packet* slots) {
  uint32_t words[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) words[i] = load(slots + i)[i % 4];
  Packet packet = load(slots);
#pragma unroll
  for (int i = 0; i < 64; ++i) packet[i % 4] = packet[i % 4] * words[63 - i] + words[i];
  store(slots + threadIdx.x, packet);
}

extern "C" __global__ void many_registers(Packet* slots) {
  uint32_t words[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) words[i] = load(slots + i)[i % 4];
  Packet packet = load(slots);
#pragma unroll
  for (int i = 0; i < 64; ++i) packet[i % 4] = packet[i % 4] * words[63 - i] + words[i];
  store(slots + threadIdx.x, packet);
}
