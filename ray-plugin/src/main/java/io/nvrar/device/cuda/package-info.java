/**
 * NVIDIA GPUs as devices, on the driver API of JCuda. {@link io.nvrar.device.cuda.CudaInterop}
 * takes and gives raw pointers, stream handles and JCuda's objects.
 */
@NullMarked
package io.nvrar.device.cuda;

import org.jspecify.annotations.NullMarked;
