package io.nvrar.it.soak;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Phase;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.Outcome;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The expected outcome of a fault for every rank: how it may end, and how soon. */
final class Verdict {
  private static final Duration KNOWN_TO_ALL = Duration.ofSeconds(1);

  /** For how long late members of a failed join are still told the reason. */
  private static final Duration FAREWELL = Duration.ofSeconds(2);

  private static final Duration JOIN_GRACE = Duration.ofSeconds(2);

  /** A stop shorter than this part of a limit must have no effect. */
  private static final double HARMLESS = 0.75;

  /**
   * Kinds of faults that may come when every rank has already finished. Such a round proves nothing
   * if it completes, but not all rounds of a kind may.
   */
  static final Set<Fault.Kind> MAY_COME_TOO_LATE =
      Set.of(
          Fault.Kind.ABORT,
          Fault.Kind.CLOSE_IN_CALL,
          Fault.Kind.CUT_LINK,
          Fault.Kind.KILL,
          Fault.Kind.LONG_STOP,
          Fault.Kind.OBSERVER_KILL,
          Fault.Kind.OBSERVER_ABORT,
          Fault.Kind.OBSERVER_DESTROY);

  private final Round round;
  private final Fault fault;
  private final @Nullable Long faultNanos;
  private final List<Long> pids;
  private final Duration slack;

  /**
   * @param faultNanos when the fault happened; null if it did not
   * @param pids the process of each worker
   * @param slack what a busy machine may add to every limit
   */
  Verdict(Round round, @Nullable Long faultNanos, List<Long> pids, Duration slack) {
    this.round = round;
    this.fault = round.fault();
    this.faultNanos = faultNanos;
    this.pids = pids;
    this.slack = slack;
  }

  /** Why this outcome of a rank is wrong, or null if it is allowed. */
  @Nullable String complaint(GroupPlan group, int rank, Outcome outcome) {
    if (!mayEnd(group, rank, outcome)) {
      return String.format(
          Locale.ROOT,
          "rank %d of %s must not end so after %s: %s",
          rank,
          group.name(),
          faultNanos == null ? "no fault" : fault,
          outcome);
    }
    boolean failed = outcome.end() == Outcome.End.FAILED;
    if (faultNanos == null || !(failed || outcome.end() == Outcome.End.COMPLETE)) {
      return null;
    }
    Duration limit = limit(group, outcome).plus(slack);
    if (failed && outcome.atNanos() - faultNanos > limit.toNanos()) {
      return String.format(
          Locale.ROOT,
          "rank %d of %s failed later than %.1f s after %s: %s",
          rank,
          group.name(),
          limit.toMillis() / 1e3,
          fault,
          outcome);
    }
    long closing = outcome.closedNanos() - Math.max(outcome.atNanos(), faultNanos);
    if (round.first().equals(group) && closing > limit.toNanos()) {
      return String.format(
          Locale.ROOT,
          "rank %d of %s took %.1f s to close after %s, the limit is %.1f s: %s",
          rank,
          group.name(),
          closing / 1e9,
          fault,
          limit.toMillis() / 1e3,
          outcome);
    }
    return null;
  }

  private boolean mayEnd(GroupPlan group, int rank, Outcome outcome) {
    boolean complete = outcome.end() == Outcome.End.COMPLETE;
    if (outcome.end() == Outcome.End.WRONG_RESULT || outcome.end() == Outcome.End.HANGS) {
      return false;
    }
    if (faultNanos == null) {
      return complete;
    }
    if (fault.kind().external && cameTooLate(outcome)) {
      return true;
    }
    boolean atFault = group.equals(round.first()) && rank == fault.rank();
    boolean concerned = group.equals(round.first());
    return switch (fault.kind()) {
      case NONE, DELAY, BAD_ARGUMENT, SHORT_STOP, STRANGERS -> complete;
      case DIFFERENT_CALL, SWAPPED_CALLS, MISSING_CALL ->
          concerned ? outcome.is(GroupMismatchException.class) : complete;
      case ABORT -> complete || (concerned && ends(outcome, "soak wants it"));
      case EARLY_CLOSE ->
          (concerned && !atFault)
              ? ends(outcome, String.format(Locale.ROOT, "rank %d closed ", fault.rank()))
              : complete;
      case CLOSE_IN_CALL ->
          complete
              || (atFault && outcome.is(IllegalStateException.class))
              // On a GPU the rank itself may hear it, when it waits for its call.
              || ((atFault ? group.isOnGpus() : concerned)
                  && !outcome.is(PeerLostException.class)
                  && ends(outcome, String.format(Locale.ROOT, "rank %d ", fault.rank())));
      case CUT_LINK -> complete || (concerned && (namesAnEnd(outcome) || hearsOfAClose(outcome)));
      case KILL -> afterLoss(group, rank, outcome);
      case LONG_STOP -> afterLongStop(group, rank, outcome);
      case OBSERVER_KILL, OBSERVER_ABORT -> complete || (concerned && ends(outcome, "driver"));
      case OBSERVER_DESTROY ->
          complete
              || (concerned
                  && (ends(outcome, "driver")
                      || (outcome.is(IllegalStateException.class)
                          && outcome.message().contains("destroyed by the driver"))));
    };
  }

  /** A member that joins a group that failed long ago finds no one to tell it the reason. */
  private boolean cameTooLate(Outcome outcome) {
    return faultNanos != null
        && outcome.phase() == Phase.CREATE
        && outcome.atNanos() - faultNanos > FAREWELL.toNanos()
        && (ends(outcome, "has no rendezvous")
            || (outcome.is(PeerLostException.class)
                && outcome.lostRank() == 0
                && outcome.message().contains("was being created")));
  }

  private static boolean ends(Outcome outcome, String saying) {
    return outcome.is(CollectiveException.class) && outcome.message().contains(saying);
  }

  private boolean afterLoss(GroupPlan group, int rank, Outcome outcome) {
    List<Integer> victims = group.ranksOf(round.first().faultyWorker());
    if (victims.contains(rank)) {
      return outcome.end() == Outcome.End.DIED || outcome.end() == Outcome.End.COMPLETE;
    }
    return outcome.end() == Outcome.End.COMPLETE
        || (!victims.isEmpty()
            && (namesLost(outcome, victims)
                || missedJoin(outcome, victims)
                || hearsOfAClose(outcome)));
  }

  private boolean afterLongStop(GroupPlan group, int rank, Outcome outcome) {
    boolean complete = outcome.end() == Outcome.End.COMPLETE;
    List<Integer> victims = group.ranksOf(round.first().faultyWorker());
    long shortest =
        Math.min(group.config().timeout().toMillis(), group.config().heartbeatLimit().toMillis());
    if (complete || victims.isEmpty() || fault.pauseMillis() < HARMLESS * shortest) {
      return complete;
    }
    if (victims.contains(rank)) {
      // It resumes after the groups have ended without it; which end it learns of first is not
      // determined.
      return outcome.is(PeerLostException.class)
          || outcome.is(CollectiveTimeoutException.class)
          || outcome.is(CollectiveException.class);
    }
    return namesLost(outcome, victims)
        || namesMissing(outcome, victims)
        || missedJoin(outcome, victims)
        || hearsOfAClose(outcome);
  }

  private boolean namesLost(Outcome outcome, List<Integer> victims) {
    boolean knowsPid = outcome.lostPid() == pidOf(fault.rank());
    // The identity of rank 0 is not known before the members have been introduced to each other.
    boolean cannotKnowPid = outcome.phase() != Phase.CALL && outcome.lostPid() == 0;
    // In a group created by a split the ranks are different.
    boolean isVictim = victims.contains(outcome.lostRank()) || outcome.phase() == Phase.SPLIT;
    return outcome.is(PeerLostException.class) && isVictim && (knowsPid || cannotKnowPid);
  }

  /** After a cut no process is lost; for each end of the link the other one is. */
  private boolean namesAnEnd(Outcome outcome) {
    return outcome.is(PeerLostException.class)
        && Stream.of(fault.rank(), fault.peer())
            .anyMatch(
                end ->
                    outcome.lostPid() == pidOf(end)
                        // In a group created by a split the ranks are different.
                        && (outcome.lostRank() == end || outcome.phase() == Phase.SPLIT));
  }

  private long pidOf(int rank) {
    return pids.get(round.first().workers().get(rank));
  }

  /**
   * A member whose split failed by the loss also closes the first group, possibly before that
   * group's own channel has detected the loss.
   */
  private boolean hearsOfAClose(Outcome outcome) {
    return fault.phase() == Phase.SPLIT && ends(outcome, " closed the group ");
  }

  private static boolean namesMissing(Outcome outcome, List<Integer> victims) {
    return outcome.is(CollectiveTimeoutException.class)
        && (!Collections.disjoint(outcome.missingRanks(), victims)
            || outcome.phase() == Phase.SPLIT);
  }

  /**
   * A process that has not sent its greeting can only be reported as missing; so can one that never
   * reads.
   */
  private static boolean missedJoin(Outcome outcome, List<Integer> victims) {
    boolean joins = outcome.phase() == Phase.CREATE || outcome.phase() == Phase.SPLIT;
    boolean mayHoldRendezvous = victims.contains(0) || outcome.phase() == Phase.SPLIT;
    return joins
        && (namesMissing(outcome, victims)
            || (mayHoldRendezvous && ends(outcome, "has no rendezvous")));
  }

  private Duration limit(GroupPlan group, Outcome outcome) {
    if (outcome.phase() == Phase.CREATE) {
      return group.config().joinTimeout().plus(JOIN_GRACE);
    }
    if (fault.kind() != Fault.Kind.LONG_STOP) {
      return KNOWN_TO_ALL;
    }
    // The stopped process learns it when it continues.
    Duration limit =
        fault.variant() == Fault.BEYOND_CALL_TIMEOUT
            ? group.config().timeout()
            : group.config().heartbeatLimit();
    Duration pause = Duration.ofMillis(fault.pauseMillis());
    return (limit.compareTo(pause) > 0 ? limit : pause).plus(KNOWN_TO_ALL);
  }
}
