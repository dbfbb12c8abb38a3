package io.nvrar.internal.channel;

import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The hub's state machine. It decides which peer has a place in the group, and when the group is
 * complete, has failed, or is closed. It uses sockets only through {@link Peer#send}. Used by the
 * hub's thread only.
 *
 * <p>A group goes through GATHERING (until every rank has sent its descriptor), CONNECTING (until
 * every rank has mapped the others) and RUNNING, and ends in CLOSED or FAILED.
 */
final class Coordinator {
  /** How long the tasks of a driver may take in addition to the two waits of creating a group. */
  static final Duration DRIVER_MARGIN = Duration.ofSeconds(15);

  /** For how long late members of a failed join are still told the reason. */
  private static final long LINGER_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** Of the ranks that came to a join that failed, so many are named. */
  private static final int MOST_NAMED = 4;

  private enum Phase {
    GATHERING,
    CONNECTING,
    RUNNING,
    CLOSED,
    FAILED
  }

  private final GroupSpec spec;
  private final GroupConfig config;
  private final @Nullable Peer[] members;
  private final Observers observers;
  private final BitSet closing = new BitSet();

  /**
   * The peers that have sent data, and so know that they were admitted, but have not sent their
   * greeting.
   */
  private final Set<Peer> coming = new HashSet<>();

  /** The ranks that have been told why the join failed. */
  private final BitSet told = new BitSet();

  private Phase phase = Phase.GATHERING;
  private Message.@Nullable Members introduced;
  private boolean wasFormed;
  private long deadlineNanos;
  private boolean anyMemberCame;
  private @Nullable Failure failure;
  private long failedNanos;
  private long seekingNanos;
  private boolean isDriverMissed;
  private final BitSet left = new BitSet();

  /** The last member that came as a rank that was taken, as a clause; "" if there was none. */
  private String refused = "";

  private final SplitBoard splits;

  Coordinator(GroupSpec spec, Supplier<RankZeroView> view, long nowNanos) {
    this.spec = spec;
    observers = new Observers(spec, view);
    config = spec.config();
    members = new Peer[spec.worldSize()];
    deadlineNanos = nowNanos + config.joinTimeout().toNanos();
    splits =
        new SplitBoard(
            spec, this::sendTo, () -> Hosts.of(Objects.requireNonNull(introduced, "members")));
  }

  /** Handles a message from an authenticated peer. */
  void received(Peer peer, Message message, long nowNanos) {
    if (peer.greeting == null && !peer.isDismissed) {
      comes(peer, nowNanos);
    }
    if (message instanceof Message.Greeting greeting) {
      if (coming.remove(peer)) {
        peer.greeting = greeting;
        greet(peer, greeting, nowNanos);
      }
    } else if (message instanceof Failure reported) {
      reported(peer, reported, nowNanos);
    } else if (message instanceof Message.Goodbye) {
      peer.isLeaving = true;
    } else if (peer.isDismissed || peer.greeting == null) {
      return;
    } else if (message instanceof Message.Destroy) {
      destroys(peer, nowNanos);
    } else if (phase == Phase.FAILED) {
      return;
    } else if (message instanceof Message.Descriptor descriptor) {
      peer.descriptor = descriptor.bytes();
      introduceAll();
    } else if (message instanceof Message.Connected) {
      peer.isConnected = true;
      startAll();
    } else if (peer != members[clamp(peer.claim.rank())]) {
      return; // only members may send the messages below
    } else if (message instanceof Message.Closing closingCall) {
      closes(peer, closingCall, nowNanos);
    } else if (phase == Phase.RUNNING) {
      splits(peer.claim.rank(), message, nowNanos);
    }
  }

  /** Observers count from here on, because the group may end before they have said anything. */
  void admitted(Peer peer) {
    if (peer.claim.role() == Handshake.Role.OBSERVER) {
      coming.add(peer);
    }
  }

  /** A peer has come that has not greeted. A member need not wait until it has, if all is over. */
  private void comes(Peer peer, long nowNanos) {
    Failure reason = failure;
    if (reason != null && !wasFormed && peer.claim.role() == Handshake.Role.MEMBER) {
      dismiss(peer, reason, nowNanos);
    } else {
      coming.add(peer);
    }
  }

  private void dismiss(Peer member, Failure reason, long nowNanos) {
    told.set(clamp(member.claim.rank()));
    member.dismiss(reason, nowNanos);
  }

  private void splits(int rank, Message message, long nowNanos) {
    if (message instanceof Message.Split split) {
      failIf(splits.called(rank, split, nowNanos), nowNanos);
    } else if (message instanceof Message.SplitRendezvous rendezvous) {
      splits.meets(rank, rendezvous);
    }
  }

  private void greet(Peer peer, Message.Greeting greeting, long nowNanos) {
    if (greeting instanceof Message.Hello hello && peer.claim.role() == Handshake.Role.MEMBER) {
      place(peer, hello, nowNanos);
    } else if (greeting instanceof Message.ObserverHello
        && peer.claim.role() == Handshake.Role.OBSERVER) {
      observers.greet(
          peer,
          greeting.process(),
          introduced,
          phase == Phase.CLOSED ? new Message.AllClosed() : failure,
          nowNanos);
    } else {
      peer.broken = "it sent a greeting for a role other than the authenticated one";
    }
  }

  private void place(Peer peer, Message.Hello hello, long nowNanos) {
    int rank = peer.claim.rank();
    if (!anyMemberCame) {
      anyMemberCame = true;
      // The deadline starts with the first member: the members start together, but a ticket may be
      // kept for a while before that.
      deadlineNanos = nowNanos + config.joinTimeout().toNanos();
    }
    if (failure != null) {
      dismiss(peer, failure, nowNanos);
      return;
    }
    if (rank < 0 || rank >= members.length) {
      Failure mismatch =
          Failure.of(Failure.Kind.MISMATCH, GroupDifferences.worldSize(spec, rank, hello));
      peer.dismiss(mismatch, nowNanos);
      fail(mismatch, nowNanos);
      return;
    }
    Peer first = members[rank];
    if (first != null) {
      ProcessIdentity holder = Objects.requireNonNull(first.greeting).process();
      refused =
          String.format(
              Locale.ROOT, "; %s came as rank %d, too, which is %s", hello.process(), rank, holder);
      peer.dismiss(
          Failure.of(
              Failure.Kind.MISMATCH,
              String.format(
                  Locale.ROOT,
                  "rank %d of %s is taken by %s, so %s cannot join as the same rank",
                  rank,
                  spec.label(),
                  holder,
                  hello.process())),
          nowNanos);
      return;
    }
    members[rank] = peer;
    String difference = GroupDifferences.first(spec, rank, hello, members);
    if (difference != null) {
      fail(Failure.of(Failure.Kind.MISMATCH, difference), nowNanos);
    }
  }

  private int clamp(int rank) {
    return Math.max(0, Math.min(rank, members.length - 1));
  }

  private void introduceAll() {
    if (phase != Phase.GATHERING) {
      return;
    }
    Message.MemberInfo[] all = new Message.MemberInfo[members.length];
    for (int r = 0; r < members.length; r++) {
      Peer member = members[r];
      if (member == null || member.descriptor == null || member.greeting == null) {
        return;
      }
      all[r] = new Message.MemberInfo(member.greeting.process(), member.descriptor);
    }
    phase = Phase.CONNECTING;
    introduced = new Message.Members(all);
    sendToAll(introduced);
  }

  private void startAll() {
    if (phase != Phase.CONNECTING) {
      return;
    }
    for (Peer member : members) {
      if (member == null || !member.isConnected) {
        return;
      }
    }
    phase = Phase.RUNNING;
    wasFormed = true;
    sendToAll(new Message.Ready());
  }

  private void reported(Peer peer, Failure reported, long nowNanos) {
    peer.isLeaving = true;
    if (peer.claim.role() == Handshake.Role.OBSERVER) {
      if (observers.contains(peer)) {
        failFromDriver(reported, nowNanos);
      }
      return;
    }
    int rank = clamp(peer.claim.rank());
    Peer placed = members[rank];
    if (placed == null) {
      told.set(rank);
    }
    // A member that failed before its greeting has no place. If the group does not wait for a
    // member in its place, the failure does not affect the group.
    if (placed == peer || (placed == null && phase == Phase.GATHERING)) {
      told.set(rank);
      fail(reported, nowNanos);
    }
  }

  private void closes(Peer peer, Message.Closing closingCall, long nowNanos) {
    peer.isLeaving = true;
    closing.set(peer.claim.rank());
    Message.Closing notice =
        new Message.Closing(peer.claim.rank(), closingCall.sequence(), closingCall.destroyed());
    if (closingCall.destroyed()) {
      splits.end();
    }
    for (Peer other : members) {
      if (other != null && other != peer) {
        other.send(notice);
      }
    }
    observers.send(notice);
    if (closing.cardinality() == members.length && phase == Phase.RUNNING) {
      phase = Phase.CLOSED;
      sendToAll(new Message.AllClosed());
    } else {
      failIf(splits.closed(peer.claim.rank()), nowNanos);
    }
  }

  private void destroys(Peer observer, long nowNanos) {
    if (wasFormed) {
      splits.end();
      sendToMembers(new Message.Destroy()); // also frees the members of a failed group
    } else if (phase != Phase.CLOSED) {
      fail(
          Failure.of(
              Failure.Kind.DRIVER,
              String.format(
                  Locale.ROOT,
                  "%s was destroyed by the driver (%s) while it was being created",
                  spec.label(),
                  describe(observer))),
          nowNanos);
    }
  }

  /** Handles the end of a peer's connection. */
  void gone(Peer peer, String why, long nowNanos) {
    boolean wasObserver = observers.remove(peer);
    boolean wasComing = coming.remove(peer);
    int rank = peer.claim.rank();
    boolean wasMember = !wasObserver && rank >= 0 && rank < members.length && members[rank] == peer;
    if (wasMember) {
      left.set(rank);
    }
    if (wasObserver && !peer.isLeaving) {
      failFromDriver(
          Failure.of(
              Failure.Kind.DRIVER,
              String.format(
                  Locale.ROOT,
                  "%s was aborted: the driver (%s) was lost: %s",
                  spec.label(),
                  describe(peer),
                  why)),
          nowNanos);
    }
    if (peer.isLeaving || phase == Phase.FAILED || phase == Phase.CLOSED) {
      return;
    }
    if (wasMember || (wasComing && isAwaited(peer))) {
      ProcessIdentity process = process(peer);
      fail(
          Failure.lost(
              rank,
              process,
              String.format(
                  Locale.ROOT,
                  "rank %d (%s) was lost%s: %s",
                  rank,
                  process,
                  wasFormed ? "" : " while " + spec.label() + " was being created",
                  why)),
          nowNanos);
    }
  }

  /**
   * Whether the peer was going to be a member, and no other peer has come that could be that
   * member.
   */
  private boolean isAwaited(Peer peer) {
    int rank = peer.claim.rank();
    return phase == Phase.GATHERING
        && peer.claim.role() == Handshake.Role.MEMBER
        && rank == clamp(rank)
        && members[rank] == null
        && coming.stream().noneMatch(other -> !other.isLeaving && other.claim.equals(peer.claim));
  }

  private static ProcessIdentity process(Peer peer) {
    return peer.greeting == null
        ? new ProcessIdentity(peer.channel.remoteHost(), 0, "")
        : peer.greeting.process();
  }

  /**
   * Checks that the driver has come, if the group is one that only its driver closes. Called once a
   * turn; fails the group for all members if no observer has come within the time limit.
   *
   * @param hasPaused whether this process was paused, so that an observer may have come unnoticed
   */
  void seekDriver(long nowNanos, boolean hasPaused) {
    if (!wasFormed || phase == Phase.CLOSED || observers.hadAny() || isDriverMissed) {
      return;
    }
    Duration limit = config.joinTimeout().multipliedBy(2).plus(DRIVER_MARGIN);
    if (seekingNanos == 0 || hasPaused) {
      seekingNanos = nowNanos;
    } else if (nowNanos - seekingNanos > limit.toNanos()) {
      isDriverMissed = true;
      failFromDriver(
          Failure.of(
              Failure.Kind.DRIVER,
              String.format(
                  Locale.ROOT,
                  "%s was aborted: no driver came to observe it within %s",
                  spec.label(),
                  Phrases.seconds(limit))),
          nowNanos);
    }
  }

  /** Checks the deadlines. */
  void tick(long nowNanos) {
    if (phase == Phase.RUNNING) {
      failIf(splits.tick(nowNanos), nowNanos);
    }
    if ((phase != Phase.GATHERING && phase != Phase.CONNECTING) || nowNanos < deadlineNanos) {
      return;
    }
    int[] missing =
        IntStream.range(0, members.length)
            .filter(
                r -> {
                  Peer member = members[r];
                  return member == null
                      || (phase == Phase.GATHERING
                          ? member.descriptor == null
                          : !member.isConnected);
                })
            .toArray();
    fail(
        Failure.timeout(
            String.format(
                Locale.ROOT,
                "%s of %s did not %s within %s%s%s",
                Phrases.ranks(missing),
                spec.label(),
                phase == Phase.GATHERING ? "join" : "connect to the others",
                Phrases.seconds(config.joinTimeout()),
                whoHasCome(missing),
                refused),
            missing),
        nowNanos);
  }

  /** Of some ranks, those that have connected to the hub: who they are and from where. */
  private String whoHasCome(int... ranks) {
    Map<Integer, Peer> come = new HashMap<>();
    coming.stream()
        .filter(peer -> peer.claim.role() == Handshake.Role.MEMBER)
        .forEach(peer -> come.put(peer.claim.rank(), peer));
    for (int rank : ranks) {
      Peer member = members[rank];
      if (member != null) {
        come.put(rank, member);
      }
    }
    int[] known = IntStream.of(ranks).filter(come::containsKey).toArray();
    if (known.length == 0) {
      return "";
    }
    String named =
        IntStream.of(known)
            .limit(MOST_NAMED)
            .mapToObj(rank -> hasCome(rank, Objects.requireNonNull(come.get(rank))))
            .collect(Collectors.joining(", "));
    int more = known.length - MOST_NAMED;
    return "; of these, " + named + (more > 0 ? " and so have " + more + " more" : "");
  }

  private static String hasCome(int rank, Peer peer) {
    String who = peer.greeting == null ? "" : " (" + peer.greeting.process() + ")";
    return String.format(
        Locale.ROOT, "rank %d%s has come from %s", rank, who, peer.channel.remoteHost());
  }

  /**
   * The driver's decision is also sent to the members of a failed group, because groups split from
   * it may still be alive.
   */
  private void failFromDriver(Failure reason, long nowNanos) {
    if (phase == Phase.FAILED && wasFormed) {
      sendToMembers(reason);
    } else {
      fail(reason, nowNanos);
    }
  }

  private void failIf(@Nullable Failure reason, long nowNanos) {
    if (reason != null) {
      fail(reason, nowNanos);
    }
  }

  /** Fails the group for all members; the first reason is kept. */
  void fail(Failure first, long nowNanos) {
    if (isOver()) {
      return;
    }
    failure = splits.withWaiting(first);
    phase = Phase.FAILED;
    failedNanos = nowNanos;
    tellFailure(nowNanos);
  }

  /** Sends the failure to all peers, for which the first that they get counts. */
  void tellFailure(long nowNanos) {
    Failure reason = Objects.requireNonNull(failure);
    for (int r = 0; r < members.length; r++) {
      Peer member = members[r];
      if (member != null) {
        told.set(r);
        member.send(reason);
      }
    }
    // Those that have not greeted need not wait until they have: rank 0's process may end before.
    for (Peer peer : List.copyOf(coming)) {
      if (peer.claim.role() == Handshake.Role.MEMBER && !wasFormed) {
        coming.remove(peer);
        dismiss(peer, reason, nowNanos);
      }
    }
    Failure seen = observers.asSeen(reason);
    failure = seen;
    observers.send(seen);
    coming.stream()
        .filter(peer -> peer.claim.role() == Handshake.Role.OBSERVER)
        .forEach(peer -> peer.send(seen));
  }

  /** Whether the group has failed, or all members have closed it. */
  boolean isOver() {
    return hasFailed() || isClosed();
  }

  boolean hasFailed() {
    return phase == Phase.FAILED;
  }

  /** Whether all members have closed the group. */
  boolean isClosed() {
    return phase == Phase.CLOSED;
  }

  /** Called once a heartbeat. */
  void beat() {
    if (phase == Phase.RUNNING) {
      observers.tellActivities();
    }
  }

  /** Whether the peer's silence still counts as a loss. */
  boolean watches(Peer peer) {
    return !peer.isDismissed; // also at the end, which waits for the members that can still leave
  }

  /** Whether the hub has nothing left to do for this group. */
  boolean isFinished(long nowNanos) {
    if (wasFormed) {
      return left.cardinality() == members.length;
    }
    if (phase != Phase.FAILED) {
      return left.get(0);
    }
    return told.cardinality() == members.length
        || (told.get(0) && nowNanos - failedNanos > LINGER_NANOS)
        || nowNanos > deadlineNanos;
  }

  /**
   * Whether connections are still accepted, if only to tell late members why the group was not
   * formed.
   */
  boolean isOpen() {
    return !left.get(0) || (phase == Phase.FAILED && !wasFormed);
  }

  private static String describe(Peer peer) {
    return peer.greeting == null ? "unknown process" : peer.greeting.process().toString();
  }

  private void sendTo(int rank, Message message) {
    Peer member = members[rank];
    if (member != null) {
      member.send(message);
    }
  }

  private void sendToMembers(Message message) {
    for (Peer member : members) {
      if (member != null) {
        member.send(message);
      }
    }
  }

  private void sendToAll(Message message) {
    sendToMembers(message);
    observers.send(message);
  }
}
