package io.nvrar.internal.channel;

import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The hub's part of {@code split}: records which members wait, assigns them to the new groups, and
 * forwards the new groups' addresses. Used by the hub's thread only. If a method returns a failure,
 * the caller must fail the group.
 */
final class SplitBoard {
  private final GroupSpec spec;
  private final BiConsumer<Integer, Message> send;
  private final Supplier<Hosts> hosts;

  /** By rank; null if that rank has not called split yet. */
  private final Message.@Nullable Split[] waiting;

  /** The groups of the last complete split; their members may still have to be told the address. */
  private List<int[]> groups = List.of();

  private int number = 1;
  private int closedRank = -1;
  private boolean isOver;
  private long deadlineNanos;

  /**
   * @param send sends a message to the member of a rank
   * @param hosts asked once all members have called split
   */
  SplitBoard(GroupSpec spec, BiConsumer<Integer, Message> send, Supplier<Hosts> hosts) {
    this.spec = spec;
    this.send = send;
    this.hosts = hosts;
    waiting = new Message.Split[spec.worldSize()];
  }

  /** Handles a member's call of the next split. */
  @Nullable Failure called(int rank, Message.Split split, long nowNanos) {
    int first =
        IntStream.range(0, waiting.length).filter(r -> waiting[r] != null).findFirst().orElse(-1);
    if (first < 0) {
      deadlineNanos = nowNanos + spec.config().joinTimeout().toNanos();
    }
    if (split.number() != number || waiting[rank] != null) {
      return Failure.of(
          Failure.Kind.MISMATCH,
          String.format(
              Locale.ROOT,
              "rank %d calls split #%d of %s where #%d is next",
              rank,
              split.number(),
              spec.label(),
              number));
    }
    Message.Split other = first < 0 ? null : waiting[first];
    if (other != null && other.sequence() != split.sequence()) {
      return Failure.of(
          Failure.Kind.MISMATCH,
          String.format(
              Locale.ROOT,
              "the ranks differ at split #%d of %s: rank %d calls it after its collective #%d, rank %d after #%d",
              number,
              spec.label(),
              first,
              other.sequence(),
              rank,
              split.sequence()));
    }
    if (other != null && !Arrays.equals(other.ranks(), split.ranks())) {
      return Failure.of(
          Failure.Kind.MISMATCH,
          String.format(
              Locale.ROOT,
              "the ranks differ at split #%d of %s: rank %d calls %s, rank %d %s",
              number,
              spec.label(),
              first,
              call(other),
              rank,
              call(split)));
    }
    waiting[rank] = split;
    if (closedRank >= 0) {
      return closed(closedRank);
    }
    if (IntStream.range(0, waiting.length).allMatch(r -> waiting[r] != null)) {
      complete();
    }
    return null;
  }

  private static String call(Message.Split split) {
    return split.ranks().length == 0 ? "split" : "newGroup of " + Phrases.ranks(split.ranks());
  }

  private void complete() {
    Map<Integer, List<Integer>> byColor = new TreeMap<>();
    for (int r = 0; r < waiting.length; r++) {
      int color = at(r).color();
      if (color >= 0) {
        byColor.computeIfAbsent(color, c -> new ArrayList<>()).add(r);
      } else {
        send.accept(r, new Message.SplitPlaces(number, new int[0]));
      }
    }
    groups = new ArrayList<>();
    Hosts where = hosts.get();
    for (List<Integer> ranks : byColor.values()) {
      ranks.sort(Comparator.comparingInt(r -> at(r).key())); // stable: equal keys keep their order
      int[] inOrder = where.together(ranks.stream().mapToInt(Integer::intValue).toArray());
      groups.add(inOrder);
      Message.SplitPlaces places = new Message.SplitPlaces(number, inOrder);
      ranks.forEach(r -> send.accept(r, places));
    }
    Arrays.fill(waiting, null);
    number++;
  }

  private Message.Split at(int rank) {
    return Objects.requireNonNull(waiting[rank]);
  }

  /** Handles the rendezvous address of a new group, sent by its rank 0. */
  void meets(int rank, Message.SplitRendezvous rendezvous) {
    if (rendezvous.number() != number - 1) {
      return;
    }
    for (int[] ranks : groups) {
      if (ranks[0] == rank) {
        IntStream.of(ranks).skip(1).forEach(r -> send.accept(r, rendezvous));
      }
    }
  }

  /**
   * Called when the driver destroys the group: waiting members are told that, and not that another
   * member has closed.
   */
  void end() {
    isOver = true;
  }

  /** Handles a member that makes no more calls. */
  @Nullable Failure closed(int rank) {
    closedRank = rank;
    int[] present = present();
    return isOver || present.length == 0
        ? null
        : Failure.of(
            Failure.Kind.ABORTED,
            String.format(
                Locale.ROOT,
                "rank %d closed %s, so split #%d, which %s called, cannot complete",
                rank,
                spec.label(),
                number,
                Phrases.ranks(present)));
  }

  /** Checks the deadline. */
  @Nullable Failure tick(long nowNanos) {
    int[] present = present();
    if (present.length == 0 || nowNanos < deadlineNanos) {
      return null;
    }
    int[] missing = IntStream.range(0, waiting.length).filter(r -> waiting[r] == null).toArray();
    return Failure.timeout(
        String.format(
            Locale.ROOT,
            "split #%d of %s timed out after %s without %s: %s",
            number,
            spec.label(),
            Phrases.seconds(spec.config().joinTimeout()),
            Phrases.ranks(missing),
            sentence(present)),
        missing);
  }

  /**
   * Adds to {@code reason} the ranks that wait in a split, which the flight records do not show.
   */
  Failure withWaiting(Failure reason) {
    int[] present = present();
    return present.length == 0 || reason.message().contains("split #" + number)
        ? reason
        : reason.withMessage(reason.message() + "; " + sentence(present));
  }

  private String sentence(int... present) {
    return Phrases.ranks(present)
        + (present.length == 1 ? " waits" : " wait")
        + " in split #"
        + number;
  }

  private int[] present() {
    return IntStream.range(0, waiting.length).filter(r -> waiting[r] != null).toArray();
  }
}
