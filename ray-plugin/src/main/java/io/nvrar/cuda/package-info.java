/**
 * Raw device pointers, stream handles and JCuda's objects for a program that has them: {@link
 * io.nvrar.cuda.CudaInterop} makes buffers and streams of them, and them of buffers and streams.
 */
@NullMarked
package io.nvrar.cuda;

import org.jspecify.annotations.NullMarked;
