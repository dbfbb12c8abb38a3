/**
 * The kernels of decode: their launches, the shapes of their work, and the memory that they share.
 */
@NullMarked
package io.nvrar.examples.llama.engine.cuda.kernels;

import org.jspecify.annotations.NullMarked;
