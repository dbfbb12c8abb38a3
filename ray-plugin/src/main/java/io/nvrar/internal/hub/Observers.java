package io.nvrar.internal.hub;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Ticket;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Those who watch a group without being members of it. For the hub's thread. */
final class Observers {
  private static final int MAX = 8;

  private final Ticket ticket;

  /** What each rank is doing, as rank 0's member sees it: an observer shares no memory with it. */
  private final Supplier<String> activities;

  private final List<Peer> peers = new ArrayList<>();
  private boolean hadAny;

  /**
   * @param activities begins with "; ", or is "" while nobody knows; never blocks
   */
  Observers(Ticket ticket, Supplier<String> activities) {
    this.ticket = ticket;
    this.activities = activities;
  }

  /**
   * Takes one more, or sends it away.
   *
   * @param introduced who the members are, once that is known
   * @param outcome how the group has ended, if it has
   */
  void greet(
      Peer peer,
      ProcessIdentity process,
      Message.@Nullable Members introduced,
      @Nullable Message outcome,
      long nowNanos) {
    if (peers.size() == MAX) {
      peer.dismiss(
          Failure.of(
              Failure.Kind.MISMATCH,
              "%s has %d observers already, %s would be one too many"
                  .formatted(ticket.label(), MAX, process)),
          nowNanos);
      return;
    }
    peers.add(peer);
    hadAny = true;
    if (introduced != null) {
      peer.send(introduced); // who rank 0 is, in case it goes without a word
    }
    if (outcome != null) {
      peer.send(outcome);
    }
  }

  /** Whether one has ever come. */
  boolean hadAny() {
    return hadAny;
  }

  boolean contains(Peer peer) {
    return peers.contains(peer);
  }

  boolean remove(Peer peer) {
    return peers.remove(peer);
  }

  void send(Message message) {
    peers.forEach(peer -> peer.send(message));
  }

  /** {@code reason} with what each rank was doing. */
  Failure asSeen(Failure reason) {
    return reason.namesCalls() ? reason : reason.withMessage(reason.message() + activities.get());
  }

  /** Says what could not be asked any more once rank 0 is lost. */
  void tellActivities() {
    if (!peers.isEmpty()) {
      send(new Message.Activity(activities.get()));
    }
  }
}
