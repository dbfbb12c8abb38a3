/**
 * The rendezvous in rank 0's process: admits members, gathers them, forwards messages, and detects
 * lost members.
 */
@NullMarked
package io.nvrar.internal.hub;

import org.jspecify.annotations.NullMarked;
