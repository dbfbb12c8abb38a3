/**
 * A Hugging Face model: its configuration, its tensors from files or a seed, a rank's part of them.
 */
@NullMarked
package io.nvrar.examples.llama.weights;

import org.jspecify.annotations.NullMarked;
