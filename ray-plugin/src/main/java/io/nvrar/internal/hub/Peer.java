package io.nvrar.internal.hub;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.FramedChannel;
import io.nvrar.internal.wire.Handshake;
import io.nvrar.internal.wire.Message;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import org.jspecify.annotations.Nullable;

/** The hub's view of one authenticated connection. For the hub's thread. */
final class Peer {
  final FramedChannel channel;
  final SelectionKey key;
  final Handshake.Claim claim;

  /** When it was admitted. */
  final long sinceNanos;

  long lastHeardNanos;

  /** Null until the peer has said who it is; it has no place in the group before. */
  Message.@Nullable Greeting greeting;

  byte @Nullable [] descriptor;
  boolean isConnected;

  /** From here on the end of the connection is no loss. */
  boolean isLeaving;

  /** Set when the hub has said its last word to this peer. */
  long dismissedNanos;

  boolean isDismissed;

  /** Why nothing can be sent to it any more. */
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

  /** Says a last word and expects the peer to close. */
  void dismiss(Failure reason, long nowNanos) {
    send(reason);
    isLeaving = true;
    isDismissed = true;
    dismissedNanos = nowNanos;
  }
}
