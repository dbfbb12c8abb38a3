/**
 * The flight record of a failed group: the file with the last calls of every rank, and its
 * analysis. Users read it with {@code nvrar post-mortem}.
 */
@NullMarked
package io.nvrar.internal.flight;

import org.jspecify.annotations.NullMarked;
