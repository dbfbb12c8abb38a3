package io.nvrar.internal.hub;

import io.nvrar.internal.wire.CloseHelper;
import io.nvrar.internal.wire.FramedChannel;
import io.nvrar.internal.wire.Handshake;
import io.nvrar.internal.wire.Ticket;
import io.nvrar.internal.wire.Wire;
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
 * How strangers become peers of the hub, and how many of both there can be. For the hub's thread.
 *
 * <p>A stranger costs a socket and {@link PendingPeer}'s few bytes for at most {@link
 * #HANDSHAKE_NANOS}; there are at most {@link #MAX_PENDING} of them, the oldest makes room. A
 * member that is pushed out that way tries again. A peer costs a buffer of {@link Wire#MAX_BYTES}
 * and more; there are at most {@link #maxPeers}, and the oldest that has no place in the group
 * makes room.
 */
final class Admission {
  static final int MAX_PENDING = 64;

  /** How many connections the hub takes before it looks after its members again. */
  static final int MAX_ACCEPTS = 32;

  static final long HANDSHAKE_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** Observers, of which a group has fewer, and those who are sent away. */
  private static final int OTHER_PEERS = 16;

  private static final Logger LOG = LoggerFactory.getLogger(Admission.class);

  private final Ticket ticket;
  private final ServerSocketChannel server;
  private final Selector selector;
  private final Handshake handshake;
  private final ArrayDeque<PendingPeer> pending = new ArrayDeque<>();
  private boolean isExhausted;
  private long exhaustedNanos;

  Admission(Ticket ticket, ServerSocketChannel server, Selector selector) {
    this.ticket = ticket;
    this.server = server;
    this.selector = selector;
    handshake = new Handshake(ticket);
  }

  /** Room for each member, for as many that have to be sent away, and for others. */
  static int maxPeers(int worldSize) {
    return 2 * worldSize + OTHER_PEERS;
  }

  /** Takes those who knock. */
  void accept(SelectionKey acceptKey, long now) {
    // The rest waits in the backlog, so that a storm of strangers neither keeps the members
    // waiting nor piles up sockets: that of a stranger who was dropped goes with the next select.
    for (int i = 0; i < MAX_ACCEPTS; i++) {
      SocketChannel channel;
      try {
        channel = server.accept();
      } catch (IOException e) {
        // Out of file descriptors: the connection stays in the backlog, and asking for it in a
        // loop would starve the members.
        LOG.debug("the hub of {} cannot accept", ticket.label(), e);
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
      LOG.debug("the hub of {} lost a connection: {}", ticket.label(), e.getMessage());
      drop(stranger);
    }
  }

  /** Once a turn: listens again a tick after it could not accept. */
  void acceptAgain(SelectionKey acceptKey, long now) {
    if (isExhausted && now - exhaustedNanos >= Rendezvous.TICK_MAX_NANOS && acceptKey.isValid()) {
      isExhausted = false;
      acceptKey.interestOps(SelectionKey.OP_ACCEPT);
    }
  }

  /**
   * Reads what a stranger has sent.
   *
   * @return the peer that it has proved to be, whose key this is now; null if it is none yet, or
   *     none at all
   */
  @Nullable Peer admit(PendingPeer stranger, SelectionKey key, long now) {
    try {
      Handshake.Claim claim = stranger.advance();
      if (claim == null) {
        return null;
      }
      pending.remove(stranger);
      Handshake.Keys keys = stranger.keys();
      FramedChannel channel =
          new FramedChannel(stranger.channel(), keys.toClient(), keys.toServer());
      Peer peer = new Peer(channel, key, claim, now);
      key.attach(peer);
      return peer;
    } catch (IOException e) {
      // Whoever it was did not know the secret or went away: no member is concerned.
      LOG.debug("the hub of {} refused a connection: {}", ticket.label(), e.getMessage());
      pending.remove(stranger);
      drop(stranger);
      return null;
    }
  }

  /**
   * Which of the peers has to go, since they are too many; null if they are not. Who holds the
   * ticket can push out a member that has not greeted, but none that has.
   */
  @Nullable Peer tooMuch(Set<SelectionKey> keys) {
    List<Peer> peers =
        keys.stream()
            .filter(SelectionKey::isValid)
            .map(SelectionKey::attachment)
            .filter(Peer.class::isInstance)
            .map(Peer.class::cast)
            .toList();
    if (peers.size() <= maxPeers(ticket.worldSize())) {
      return null;
    }
    // The newest has not greeted yet, so there is one.
    return peers.stream()
        .filter(peer -> peer.greeting == null || peer.isDismissed)
        .min(Comparator.comparingLong(peer -> peer.sinceNanos))
        .orElseThrow();
  }

  /**
   * Whether a peer should have greeted. Between its proof and its greeting a member loads the
   * native library and looks for devices, so it has as long as there is to join.
   */
  boolean isOverdue(Peer peer, long now) {
    return peer.greeting == null && now - peer.sinceNanos > ticket.config().joinTimeout().toNanos();
  }

  /** Drops those who take too long to prove anything. */
  void sweep(long now) {
    while (!pending.isEmpty() && now - pending.getFirst().sinceNanos() > HANDSHAKE_NANOS) {
      drop(pending.removeFirst());
    }
  }

  /** Drops all who have proved nothing. */
  void close() {
    pending.forEach(Admission::drop);
    pending.clear();
  }

  private static void drop(PendingPeer stranger) {
    CloseHelper.closeQuietly(stranger.channel());
  }
}
