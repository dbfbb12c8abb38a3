/** How a rank's weights come into its GPU's memory. */
@NullMarked
package io.nvrar.examples.llama.engine.cuda.loading;

import org.jspecify.annotations.NullMarked;
