/**
 * The public API: a {@link io.nvrar.CollectiveGroup} of ranks, the {@link io.nvrar.Device} each
 * rank computes on, and the types that a collective takes and throws. Everything else in this
 * library depends on this package; it depends on no other package of the library.
 */
@NullMarked
package io.nvrar;

import org.jspecify.annotations.NullMarked;
