/** The engine for GPUs: its kernels, their launches, and the memory of a step. */
@NullMarked
package io.nvrar.examples.llama.engine.cuda;

import org.jspecify.annotations.NullMarked;
