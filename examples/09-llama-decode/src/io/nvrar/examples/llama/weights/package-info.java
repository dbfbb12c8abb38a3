/** A Hugging Face model directory: its configuration, its tensors, and a rank's part of them. */
@NullMarked
package io.nvrar.examples.llama.weights;

import org.jspecify.annotations.NullMarked;
