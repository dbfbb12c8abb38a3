// The images of the benchmark's own kernels, for the driver to load.
#ifndef NVRAR_BENCH_GPU_IMAGES_H
#define NVRAR_BENCH_GPU_IMAGES_H

namespace nvrar::bench {

const void* compute_image();
const void* programmatic_compute_image();
const void* sweep_image();
// These are null if the benchmark was built without nvcc.
const void* yardstick_image();
const void* yardstick_norm_image();
const void* add_norm_image();

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_GPU_IMAGES_H
