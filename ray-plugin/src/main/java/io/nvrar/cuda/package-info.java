/**
 * Interoperation with other GPU code: {@link io.nvrar.cuda.CudaInterop} converts raw device
 * pointers, handles of streams and events, and JCuda's objects to buffers, streams and events, and
 * back.
 */
@NullMarked
package io.nvrar.cuda;

import org.jspecify.annotations.NullMarked;
