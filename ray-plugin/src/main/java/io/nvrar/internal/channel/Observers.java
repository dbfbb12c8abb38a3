package io.nvrar.internal.channel;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The peers that observe a group without being members. Used by the hub's thread only. */
final class Observers {
  private static final int MAX = 8;

  private final GroupSpec spec;

  private final Supplier<RankZeroView> view;

  private final List<Peer> peers = new ArrayList<>();
  private boolean hadAny;

  Observers(GroupSpec spec, Supplier<RankZeroView> view) {
    this.spec = spec;
    this.view = view;
  }

  /**
   * Adds an observer, or rejects it.
   *
   * @param introduced the members, once they are known
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
              String.format(
                  Locale.ROOT,
                  "%s has %d observers already, %s would be one too many",
                  spec.label(),
                  MAX,
                  process)),
          nowNanos);
      return;
    }
    peers.add(peer);
    hadAny = true;
    if (introduced != null) {
      peer.send(introduced); // identifies rank 0, in case it dies without a message
    }
    if (outcome != null) {
      peer.send(outcome);
    }
  }

  /** Whether any observer has ever come. */
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

  /** Adds to {@code reason} what each rank was doing, and where the flight record is. */
  Failure asSeen(Failure reason) {
    RankZeroView seen = view.get();
    String doing = reason.namesCalls() ? "" : seen.activities();
    return reason.withMessage(reason.message() + doing + seen.flightRecord(false));
  }

  /**
   * Sends the observers what each rank is doing, and where the flight record will be, because they
   * can no longer ask once rank 0 is lost.
   */
  void tellActivities() {
    if (!peers.isEmpty()) {
      RankZeroView seen = view.get();
      send(new Message.Activity(seen.activities() + seen.flightRecord(true)));
    }
  }
}
