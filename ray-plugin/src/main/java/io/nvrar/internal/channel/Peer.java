package io.nvrar.internal.channel;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import org.jspecify.annotations.Nullable;

/** The hub's view of one authenticated connection. Used by the hub's thread only. */
final class Peer {
  final FramedChannel channel;
  final SelectionKey key;
  final Handshake.Claim claim;

  /** When it was admitted. */
  final long sinceNanos;

  long lastHeardNanos;

  /** Null until the peer has sent its greeting; before that it has no place in the group. */
  Message.@Nullable Greeting greeting;

  byte @Nullable [] descriptor;
  boolean isConnected;

  /** Set once the end of the connection no longer counts as a loss. */
  boolean isLeaving;

  /** The time when the hub sent its last message to this peer. */
  long dismissedNanos;

  boolean isDismissed;

  /** Why the connection is broken; null if it is not. */
  @Nullable String broken;

  Peer(FramedChannel channel, SelectionKey key, Handshake.Claim claim, long nowNanos) {
    this.channel = channel;
    this.key = key;
    this.claim = claim;
    sinceNanos = nowNanos;
    lastHeardNanos = nowNanos;
  }

  /** Queues a message; a broken connection shows in {@link #broken}. */
  void send(Message message) {
    if (broken != null || !channel.channel().isOpen()) {
      return;
    }
    try {
      channel.send(message);
    } catch (IOException e) {
      broken = FramedChannel.reason(e);
    }
  }

  /** Sends the message of {@link FramedChannel#prepareLast}; allocates nothing. */
  void sendLast() {
    if (broken == null && channel.channel().isOpen()) {
      try {
        channel.sendLast();
      } catch (IOException e) {
        broken = "connection closed";
      }
    }
  }

  /** Sends a last message and expects the peer to close the connection. */
  void dismiss(Failure reason, long nowNanos) {
    send(reason);
    isLeaving = true;
    isDismissed = true;
    dismissedNanos = nowNanos;
  }
}
