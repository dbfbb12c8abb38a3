/**
 * The public API: a {@link io.nvrar.CollectiveGroup} of ranks, the {@link io.nvrar.Device} each
 * rank computes on, and what a collective takes and throws. Everything else in this library uses
 * this package; it uses nobody.
 */
@NullMarked
package io.nvrar;

import org.jspecify.annotations.NullMarked;
