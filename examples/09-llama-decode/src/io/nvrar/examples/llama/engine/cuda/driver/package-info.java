/**
 * What the engine needs of NVIDIA's libraries: the driver, cuBLASLt and NCCL, and what is loaded
 * and freed by them.
 */
@NullMarked
package io.nvrar.examples.llama.engine.cuda.driver;

import org.jspecify.annotations.NullMarked;
