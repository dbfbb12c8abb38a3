/** From logits to tokens: sampling, and the loop that feeds the tokens back. */
@NullMarked
package io.nvrar.examples.llama.generate;

import org.jspecify.annotations.NullMarked;
