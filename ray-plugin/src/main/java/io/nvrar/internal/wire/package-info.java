/**
 * What crosses between the processes of a group, and how: tickets, the handshake, frames, messages.
 */
@NullMarked
package io.nvrar.internal.wire;

import org.jspecify.annotations.NullMarked;
