/**
 * Interoperation with other GPU code: {@link io.nvrar.cuda.CudaInterop} converts raw device
 * pointers, handles of streams and events, and JCuda's objects to buffers, streams and events, and
 * back. {@link io.nvrar.cuda.CudaModule} loads kernels of the user's own and launches them on a
 * group's streams.
 */
@NullMarked
package io.nvrar.cuda;

import org.jspecify.annotations.NullMarked;
