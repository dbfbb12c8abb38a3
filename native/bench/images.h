// What the benchmark runs on a GPU besides the library, as the driver loads it.
#ifndef NVRAR_BENCH_IMAGES_H
#define NVRAR_BENCH_IMAGES_H

namespace nvrar::bench {

const void* compute_image();
// Null where the benchmark was built without nvcc.
const void* yardstick_image();

}  // namespace nvrar::bench

#endif  // NVRAR_BENCH_IMAGES_H
