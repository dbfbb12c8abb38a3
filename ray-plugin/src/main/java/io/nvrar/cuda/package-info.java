/**
 * Interoperation with other GPU code: {@link io.nvrar.cuda.CudaInterop} converts raw device
 * pointers, stream handles and JCuda's objects to buffers and streams, and back.
 */
@NullMarked
package io.nvrar.cuda;

import org.jspecify.annotations.NullMarked;
