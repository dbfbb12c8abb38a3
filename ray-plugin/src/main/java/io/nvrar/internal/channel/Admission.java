package io.nvrar.internal.channel;

import io.nvrar.internal.CloseHelper;
import io.nvrar.internal.wire.GroupSpec;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Admits connections: turns strangers that pass the handshake into peers of the hub, and limits the
 * number of both. Used by the hub's thread only.
 *
 * <p>A stranger costs a socket and {@link PendingPeer}'s few bytes for at most {@link
 * #HANDSHAKE_NANOS}; there are at most {@link #MAX_PENDING} of them, and the oldest is dropped for
 * a new one. A member that is dropped this way tries again. A peer costs at least a buffer of 64
 * KiB; there are at most {@link #maxPeers}, and the oldest without a place in the group is dropped
 * for a new one.
 */
final class Admission {
  static final int MAX_PENDING = 64;

  /** How many connections the hub accepts before it serves its members again. */
  static final int MAX_ACCEPTS = 32;

  static final long HANDSHAKE_NANOS = TimeUnit.SECONDS.toNanos(5);

  /**
   * The number of other peers: observers, of which a group has fewer, and peers that are being
   * rejected.
   */
  private static final int OTHER_PEERS = 16;

  private static final Logger LOG = LoggerFactory.getLogger(Admission.class);

  private final GroupSpec spec;
  private final ServerSocketChannel server;
  private final Selector selector;
  private final Handshake handshake;
  private final ArrayDeque<PendingPeer> pending = new ArrayDeque<>();
  private boolean isExhausted;
  private long exhaustedNanos;

  Admission(GroupSpec spec, Handshake handshake, ServerSocketChannel server, Selector selector) {
    this.spec = spec;
    this.server = server;
    this.selector = selector;
    this.handshake = handshake;
  }

  /** The limit of peers: each member, as many that have to be rejected, and others. */
  static int maxPeers(int worldSize) {
    return 2 * worldSize + OTHER_PEERS;
  }

  /** Accepts new connections. */
  void accept(SelectionKey acceptKey, long now) {
    // Further connections wait in the backlog, so that a storm of strangers neither delays the
    // members nor accumulates sockets: the socket of a dropped stranger is only closed by the next
    // select.
    for (int i = 0; i < MAX_ACCEPTS; i++) {
      SocketChannel channel;
      try {
        channel = server.accept();
      } catch (IOException e) {
        // The process is out of file descriptors. The connection stays in the backlog, and retrying
        // in a loop would starve the members.
        LOG.debug("the hub of {} cannot accept", spec.label(), e);
        acceptKey.interestOps(0);
        isExhausted = true;
        exhaustedNanos = now;
        return;
      }
      if (channel == null) {
        return;
      }
      if (pending.size() == MAX_PENDING) {
        drop(pending.removeFirst());
      }
      receive(new PendingPeer(channel, handshake, now));
    }
  }

  private void receive(PendingPeer stranger) {
    try {
      SocketChannel channel = stranger.channel();
      channel.configureBlocking(false);
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      channel.register(selector, SelectionKey.OP_READ, stranger);
      pending.addLast(stranger);
    } catch (IOException e) {
      LOG.debug("the hub of {} lost a connection: {}", spec.label(), e.getMessage());
      drop(stranger);
    }
  }

  /** Called once a turn: accepts again one tick after accepting failed. */
  void acceptAgain(SelectionKey acceptKey, long now) {
    if (isExhausted && now - exhaustedNanos >= Rendezvous.TICK_MAX_NANOS && acceptKey.isValid()) {
      isExhausted = false;
      acceptKey.interestOps(SelectionKey.OP_ACCEPT);
    }
  }

  /**
   * Reads the data that a stranger has sent.
   *
   * @return the authenticated peer, to which the key is now attached; null if the handshake is not
   *     complete, or has failed
   */
  @Nullable Peer admit(PendingPeer stranger, SelectionKey key, long now) {
    try {
      Handshake.Claim claim = stranger.advance();
      if (claim == null) {
        return null;
      }
      pending.remove(stranger);
      // Not sooner, because it costs a look at all descriptors, and a stranger is a stranger.
      Sockets.keepFromPrograms(stranger.channel());
      Handshake.Keys keys = stranger.keys();
      FramedChannel channel =
          new FramedChannel(stranger.channel(), keys.toClient(), keys.toServer());
      Peer peer = new Peer(channel, key, claim, now);
      key.attach(peer);
      return peer;
    } catch (IOException e) {
      // The stranger did not know the secret or closed the connection; this does not affect any
      // member.
      LOG.debug("the hub of {} refused a connection: {}", spec.label(), e.getMessage());
      pending.remove(stranger);
      drop(stranger);
      return null;
    }
  }

  /**
   * The peer that has to be dropped because there are too many; null if there are not. A holder of
   * the ticket can so push out a member that has not sent its greeting, but never one that has.
   */
  @Nullable Peer tooMuch(Set<SelectionKey> keys) {
    List<Peer> peers =
        keys.stream()
            .filter(SelectionKey::isValid)
            .map(SelectionKey::attachment)
            .filter(Peer.class::isInstance)
            .map(Peer.class::cast)
            .toList();
    if (peers.size() <= maxPeers(spec.worldSize())) {
      return null;
    }
    // There is one, because the newest has not sent its greeting yet.
    return peers.stream()
        .filter(peer -> peer.greeting == null || peer.isDismissed)
        .min(Comparator.comparingLong(peer -> peer.sinceNanos))
        .orElseThrow();
  }

  /**
   * Whether a peer's greeting is overdue. Between its proof and its greeting a member loads the
   * native library and looks for devices, so the limit is the join timeout.
   */
  boolean isOverdue(Peer peer, long now) {
    return peer.greeting == null && now - peer.sinceNanos > spec.config().joinTimeout().toNanos();
  }

  /** Drops strangers that take too long to authenticate. */
  void sweep(long now) {
    while (!pending.isEmpty() && now - pending.getFirst().sinceNanos() > HANDSHAKE_NANOS) {
      drop(pending.removeFirst());
    }
  }

  /** Drops all strangers that have not authenticated. */
  void close() {
    pending.forEach(Admission::drop);
    pending.clear();
  }

  private static void drop(PendingPeer stranger) {
    CloseHelper.closeQuietly(stranger.channel());
  }
}
