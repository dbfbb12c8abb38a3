/**
 * The flight record: the last calls of every rank of a failed group as a file, and what can be read
 * from it. Not for users but by {@code nvrar post-mortem}.
 */
@NullMarked
package io.nvrar.internal.flight;

import org.jspecify.annotations.NullMarked;
