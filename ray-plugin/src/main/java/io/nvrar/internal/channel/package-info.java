/**
 * Both ends of the control channel: the rendezvous in rank 0's process, which admits members,
 * gathers them, forwards messages and detects lost members; and what dials it. The handshake and
 * the frames between them.
 */
@NullMarked
package io.nvrar.internal.channel;

import org.jspecify.annotations.NullMarked;
