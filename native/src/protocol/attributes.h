// How functions in this folder are compiled: what a CUDA compiler compiles here is for the device alone.
#ifndef NVRAR_PROTOCOL_ATTRIBUTES_H
#define NVRAR_PROTOCOL_ATTRIBUTES_H

#if defined(__CUDACC__)
#define NVRAR_HD __device__ __forceinline__
#else
// Always inlined, so that a translation unit built for another instruction set can never lend its copy to this one.
#define NVRAR_HD inline __attribute__((always_inline))
#endif

#endif  // NVRAR_PROTOCOL_ATTRIBUTES_H
