/**
 * Everything that the processes of a group exchange, and its encoding: tickets, the handshake,
 * frames, messages.
 */
@NullMarked
package io.nvrar.internal.wire;

import org.jspecify.annotations.NullMarked;
