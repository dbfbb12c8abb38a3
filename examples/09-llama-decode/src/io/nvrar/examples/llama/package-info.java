/**
 * The decode command: a driver that makes a group of actors, each with a shard of a Llama, and
 * prints what they decode.
 */
@NullMarked
package io.nvrar.examples.llama;

import org.jspecify.annotations.NullMarked;
