/** Data-parallel training of a character GPT, by Ray actors with DJL's PyTorch engine. */
@NullMarked
package io.nvrar.examples.training;

import org.jspecify.annotations.NullMarked;
