package io.nvrar.internal.group;

import static java.util.stream.Collectors.joining;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.internal.channel.Rendezvous;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.BitSet;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * A member's part of {@code split}: sends its color, receives its new group's members, meets them
 * at their rendezvous and joins. The new group has its own rendezvous and control channel, and so
 * an independent life.
 */
public final class Splitting {
  /**
   * The hub enforces the deadline and knows who is missing; this additional time is for the case
   * that it hangs.
   */
  private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(2);

  private static final String ELLIPSIS = "...";

  private static final int[] NONE = {};

  private final GroupSpec spec;
  private final GroupKeys keys;
  private final int rank;
  private final Member member;
  private final AtomicBoolean busy = new AtomicBoolean();

  // Guarded by the member's lock.
  private int number;
  private Message.@Nullable SplitPlaces places;
  private Message.@Nullable SplitRendezvous rendezvous;

  Splitting(GroupSpec spec, GroupKeys keys, int rank, Member member) {
    this.spec = spec;
    this.keys = keys;
    this.rank = rank;
    this.member = member;
  }

  /** Handles a message of the hub. Called on the channel's thread, under the member's lock. */
  void received(Message message) {
    if (message instanceof Message.SplitPlaces all && all.number() == number) {
      places = all;
    } else if (message instanceof Message.SplitRendezvous where && where.number() == number) {
      rendezvous = where;
    }
  }

  /**
   * {@link io.nvrar.CollectiveGroup#split}.
   *
   * @param lastCall the number of this member's last collective
   * @param deviceOrdinal the device of the member in the new group
   */
  @Nullable MemberGroup split(int color, int key, long lastCall, int deviceOrdinal) {
    begin("split");
    try {
      int[] ranks = agree(color, key, lastCall, NONE);
      return ranks.length == 0
          ? null
          : join(ranks, childName(spec.name(), Integer.toString(color)), deviceOrdinal);
    } finally {
      busy.set(false);
    }
  }

  /**
   * {@link io.nvrar.CollectiveGroup#newGroup} of ranks that were checked.
   *
   * @param lastCall the number of this member's last collective
   * @param deviceOrdinal the device of the member in the new group
   */
  @Nullable MemberGroup newGroup(int[] ranks, long lastCall, int deviceOrdinal) {
    begin("newGroup");
    try {
      int place = Message.Split.newRank(rank, ranks).orElse(-1);
      int[] inOrder = agree(place < 0 ? -1 : 0, place, lastCall, ranks);
      if (place < 0) {
        return null;
      }
      String named = IntStream.of(ranks).mapToObj(Integer::toString).collect(joining(","));
      return join(inOrder, childName(spec.name(), named), deviceOrdinal);
    } finally {
      busy.set(false);
    }
  }

  private void begin(String call) {
    if (!busy.compareAndSet(false, true)) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s was called on rank %d of %s while another split of it runs there",
              call,
              rank,
              spec.label()));
    }
  }

  /** Throws unless these are ranks of this group, each listed once. */
  void checkRanks(int... ranks) {
    if (ranks == null || ranks.length == 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "newGroup names no rank, it needs one or more of the ranks 0 to %d of %s",
              spec.worldSize() - 1,
              spec.label()));
    }
    BitSet named = new BitSet();
    for (int one : ranks) {
      if (one < 0 || one >= spec.worldSize()) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "newGroup names rank %d, the ranks of %s are 0 to %d",
                one,
                spec.label(),
                spec.worldSize() - 1));
      }
      if (named.get(one)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "newGroup names rank %d of %s twice, which can be one member of the new group only",
                one,
                spec.label()));
      }
      named.set(one);
    }
  }

  private int[] agree(int color, int key, long lastCall, int[] named) {
    int next =
        member.locked(
            () -> {
              places = null;
              rendezvous = null;
              return ++number;
            });
    member.send(new Message.Split(next, color, key, lastCall, named));
    return await(() -> places, what(next) + ", the places").ranks();
  }

  private MemberGroup join(int[] ranks, String name, int deviceOrdinal) {
    GroupConfig config = childConfig(ranks);
    int newRank = Message.Split.newRank(rank, ranks).orElseThrow();
    Rendezvous hub = newRank == 0 ? open(name, ranks.length, config) : null;
    GroupSpec child = hub != null ? hub.spec() : meet(name, ranks.length, config);
    try {
      return Joining.join(
          child,
          keys.ofChild(name, child.uniqueId()),
          newRank,
          deviceOrdinal,
          hub,
          new Joining.Parent(member.children(), ranks));
    } catch (CollectiveException | BackendUnavailableException e) {
      member.throwIfFailed(); // a failure is why the others do not come, and says more
      throw e;
    }
  }

  /**
   * The name of a group that is split from {@code parent}. If it would be too long, its middle is
   * cut out: a name is for messages only, and must not make a split fail.
   */
  public static String childName(String parent, String own) {
    String name = parent + "/" + own;
    int tooMany = name.length() - GroupSpec.MAX_NAME_CHARS;
    if (tooMany <= 0) {
      return name;
    }
    int cutFrom = (GroupSpec.MAX_NAME_CHARS - ELLIPSIS.length()) / 2;
    int cutTo = cutFrom + ELLIPSIS.length() + tooMany;
    if (Character.isLowSurrogate(name.charAt(cutFrom))) {
      cutFrom--;
    }
    if (Character.isLowSurrogate(name.charAt(cutTo))) {
      cutTo++;
    }
    return name.substring(0, cutFrom) + ELLIPSIS + name.substring(cutTo);
  }

  private Rendezvous open(String name, int worldSize, GroupConfig config) {
    try {
      Rendezvous hub =
          Rendezvous.open(
              name, worldSize, config, member.localHost(), id -> keys.ofChild(name, id));
      hub.start(() -> {});
      GroupSpec child = hub.spec();
      member.send(
          new Message.SplitRendezvous(current(), child.uniqueId(), child.host(), child.port(), ""));
      return hub;
    } catch (RuntimeException | Error e) {
      member.send(
          new Message.SplitRendezvous(
              current(),
              new byte[0],
              "",
              0,
              String.format(
                  Locale.ROOT,
                  "rank %d (%s) could not open %s: %s",
                  rank,
                  ProcessIdentity.current(),
                  GroupSpec.label(name),
                  e.getMessage())));
      throw e;
    }
  }

  private GroupSpec meet(String name, int worldSize, GroupConfig config) {
    Message.SplitRendezvous where =
        await(() -> rendezvous, what(current()) + ", the rendezvous of " + GroupSpec.label(name));
    if (!where.problem().isEmpty()) {
      throw new CollectiveException(where.problem());
    }
    return new GroupSpec(name, worldSize, where.uniqueId(), where.host(), where.port(), config);
  }

  private GroupConfig childConfig(int... ranks) {
    // The parent occupies its port.
    return spec.config().toBuilder()
        .rendezvousPort(0)
        .gpusPerNode(NodeShape.of(ranks, spec.config().gpusPerNode()))
        .build();
  }

  private int current() {
    return member.locked(() -> number);
  }

  private long deadlineNanos() {
    return System.nanoTime() + spec.config().joinTimeout().toNanos() + GRACE_NANOS;
  }

  private String what(int split) {
    return String.format(Locale.ROOT, "split #%d of %s", split, spec.label());
  }

  /**
   * Waits for a message of the hub or another member; throws if a failure or the deadline comes
   * first.
   */
  private <T> T await(Supplier<? extends @Nullable T> answer, String what) {
    T given;
    try {
      given = member.await(answer, deadlineNanos());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      // The others wait for this member's next step.
      member.fail(Failure.abortedHere(rank, "was interrupted in " + what), true);
      throw new CollectiveException("rank " + rank + " was interrupted in " + what, e);
    }
    if (given != null) {
      return given;
    }
    member.throwIfFailed();
    if (member.isClosing()) {
      // The others wait for this member's next step, unless the driver has destroyed the group. For
      // this member it counts as a close.
      if (!member.isDestroyed()) {
        member.send(
            Failure.abortedHere(
                rank, String.format(Locale.ROOT, "closed %s in %s", spec.label(), what)));
      }
      throw member.closed();
    }
    Failure silence =
        Failure.timeout(
            String.format(Locale.ROOT, "rank %d heard nothing from rank 0 in %s", rank, what), 0);
    member.fail(silence, true);
    member.throwIfFailed();
    throw silence.toException();
  }
}
