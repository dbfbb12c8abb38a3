/** The forward pass of a rank's shard, with the collectives that join the ranks' parts. */
@NullMarked
package io.nvrar.examples.llama.engine;

import org.jspecify.annotations.NullMarked;
