// Attributes of the functions in this folder. In a CUDA compilation they are device functions only.
#ifndef NVRAR_PROTOCOL_ATTRIBUTES_H
#define NVRAR_PROTOCOL_ATTRIBUTES_H

#if defined(__CUDACC__)
#define NVRAR_HD __device__ __forceinline__
#define NVRAR_LARGE NVRAR_HD
#else
// Always inlined, so that the linker can never use the copy of a translation unit that was built for another
// instruction set.
#define NVRAR_HD inline __attribute__((always_inline))
// For templates of a Port that only large groups run: in the functions of the others they would take registers.
#define NVRAR_LARGE __attribute__((noinline, cold))
#endif

#endif  // NVRAR_PROTOCOL_ATTRIBUTES_H
