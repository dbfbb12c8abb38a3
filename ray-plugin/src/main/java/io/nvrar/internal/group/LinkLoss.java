package io.nvrar.internal.group;

import io.nvrar.CollectiveException;
import io.nvrar.internal.binding.BrokenLinkException;
import io.nvrar.internal.call.ClosedRanks;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Finds the reason of a broken link to another host: what the control channel says of the rank at
 * its other end, or else the link itself. The hub decides, because both ends, and all links of a
 * host, may break at once, and all members are to see the same failure.
 */
final class LinkLoss {
  /**
   * How long a broken link is left for the control channel to explain: the end of a process closes
   * its links and its control channel, in any order.
   */
  private static final long LINK_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GroupSpec spec;
  private final int rank;
  private final GroupAgent agent;
  private final MemberFailures failure;

  // Since when the channel's thread knows of a broken link, and since when it has reported it; 0 if
  // it does not, or has not. Used by that thread only.
  private long brokenNanos;
  private long reportedNanos;

  LinkLoss(GroupSpec spec, int rank, GroupAgent agent, MemberFailures failure) {
    this.spec = spec;
    this.rank = rank;
    this.agent = agent;
    this.failure = failure;
  }

  /** Fails the group for a link that broke a call; waits until the reason is known. */
  void explain(BrokenLinkException e) {
    failure.awaitReason(LINK_NANOS, state -> false);
    // The ends of a link say nothing of it once one of them closes.
    failure.awaitReason(
        explanationNanos(e) - LINK_NANOS, state -> hasAnEndClosed(e, state.closedRanks()));
    Failure lost = lossBy(e);
    GroupState seen = agent.state();
    if (!seen.hasFailed() && !seen.isEnded()) {
      failure.report(lost);
      failure.awaitReason(spec.config().heartbeatLimit().toNanos(), state -> false);
    }
    failure.note(lost); // does nothing if it has failed or ended
  }

  /**
   * Does that in steps that do not block, for a link that breaks while no call runs. Called by the
   * channel's thread, every turn.
   *
   * @param found why the native member is poisoned; null if it is not
   */
  void look(@Nullable CollectiveException found) {
    GroupState seen = agent.state();
    if (!(found instanceof BrokenLinkException e)
        || seen.hasFailed()
        || seen.isClosing() // a rank closes the group, which is no failure
        || hasAnEndClosed(e, seen.closedRanks())) {
      return;
    }
    long now = System.nanoTime();
    if (brokenNanos == 0) {
      brokenNanos = now;
    }
    if (reportedNanos == 0 && now - brokenNanos >= explanationNanos(e)) {
      failure.report(lossBy(e));
      reportedNanos = now;
    }
    if (reportedNanos != 0 && now - reportedNanos >= spec.config().heartbeatLimit().toNanos()) {
      failure.note(lossBy(e));
    }
  }

  private static boolean hasAnEndClosed(BrokenLinkException e, ClosedRanks closed) {
    return (e.missing() >= 0 && closed.has(e.missing()))
        || (e.origin() >= 0 && closed.has(e.origin()));
  }

  /** The other members are told by the two ends, unless both have died. */
  private long explanationNanos(BrokenLinkException e) {
    return e.isAt(rank) || e.missing() < 0 ? LINK_NANOS : spec.config().heartbeatLimit().toNanos();
  }

  /** Which rank a broken link makes the lost one: seen from an end of the link, the other end. */
  Failure lossBy(BrokenLinkException e) {
    boolean isMissing = e.missing() == rank;
    int lost = isMissing ? e.origin() : e.missing();
    int teller = isMissing ? rank : e.origin();
    Message.Members all = agent.state().members();
    if (all != null && lost >= 0 && lost == teller) {
      // Its own threads for links stand still.
      return Failure.lost(lost, all.inRankOrder()[lost].process(), String.valueOf(e.getMessage()));
    }
    if (all == null || lost < 0 || teller < 0) {
      return Failure.like(e.toPeerLost(), String.valueOf(e.getMessage()));
    }
    ProcessIdentity process = all.inRankOrder()[lost].process();
    return Failure.lost(
        lost,
        process,
        String.format(
            Locale.ROOT,
            "rank %d (%s) was lost: its link to rank %d (%s) broke: %s",
            lost,
            process,
            teller,
            all.inRankOrder()[teller].process(),
            e.getMessage()));
  }
}
