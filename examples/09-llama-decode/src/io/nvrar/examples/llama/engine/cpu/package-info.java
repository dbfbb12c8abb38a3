/** The engine that computes in float32 on the CPU. */
@NullMarked
package io.nvrar.examples.llama.engine.cpu;

import org.jspecify.annotations.NullMarked;
