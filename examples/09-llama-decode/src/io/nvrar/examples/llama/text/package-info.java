/** Text to tokens, and tokens back to text while they arrive. */
@NullMarked
package io.nvrar.examples.llama.text;

import org.jspecify.annotations.NullMarked;
