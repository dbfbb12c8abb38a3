/**
 * Groups without Ray: tickets, the rendezvous at rank 0, the control channel that stays open for a
 * group's life, and the members themselves. {@link io.nvrar.bootstrap.Groups} is the way in.
 */
@NullMarked
package io.nvrar.bootstrap;

import org.jspecify.annotations.NullMarked;
