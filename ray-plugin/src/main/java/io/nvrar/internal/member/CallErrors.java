package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.binding.BrokenLinkException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.CommonCalls;
import io.nvrar.internal.call.RunningCalls;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Creates and throws the exceptions of a member's calls when its group has failed or is closed:
 * before a call, for errors of the native library during a call, and for failures of enqueued work.
 * Thread-safe.
 */
final class CallErrors {
  /**
   * How long a broken link is left for the control channel to explain: the end of a process closes
   * its links and its control channel, in any order.
   */
  private static final long LINK_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GroupSpec spec;
  private final int rank;
  private final Monitor monitor;
  private final MemberLife life;
  private final MemberDriver driver;
  private final FirstFailure failure;
  private final RunningCalls running;
  private final CommonCalls common;
  private final Supplier<Message.@Nullable Members> members;

  // Since when the channel's thread knows of a broken link, and since when it has reported it; 0 if
  // it does not, or has not. Used by that thread only.
  private long brokenNanos;
  private long reportedNanos;

  /**
   * Since when calls are known to have failed for an unknown reason; 0 if there is no such failure.
   */
  private volatile long unexplainedNanos;

  /**
   * @param members null until they are known
   */
  CallErrors(
      GroupSpec spec,
      int rank,
      Monitor monitor,
      MemberLife life,
      MemberDriver driver,
      FirstFailure failure,
      RunningCalls running,
      CommonCalls common,
      Supplier<Message.@Nullable Members> members) {
    this.spec = spec;
    this.rank = rank;
    this.monitor = monitor;
    this.life = life;
    this.driver = driver;
    this.failure = failure;
    this.running = running;
    this.common = common;
    this.members = members;
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    if (life.isClosedFirst()) {
      // Not the peers' failure that followed from this close.
      throw closed();
    }
    failure.throwIfAny();
    if (life.isClosing()) {
      throw closed();
    }
  }

  /** Throws if no further collective can be made. */
  void checkCallable(NativeCommunicator comm) {
    checkTransferable();
    if (common.isNextBeyond(comm)) {
      // Recorded on this member only: the others may still be in calls that all ranks have made,
      // and each of them detects the same failure by itself.
      failure.note(closedBy(common.obstacle()));
      failure.throwIfAny();
    }
  }

  /** For a call on a group that is closed. */
  IllegalStateException closed() {
    return new IllegalStateException(
        driver.isDestroyed()
            ? String.format(
                Locale.ROOT,
                "%s was destroyed by the driver; rank %d can make no more calls",
                spec.label(),
                rank)
            : String.format(
                Locale.ROOT, "%s is closed; rank %d can make no more calls", spec.label(), rank));
  }

  /** The failure of a call that cannot complete because a rank takes no part in it. */
  Failure closedBy(CommonCalls.Obstacle obstacle) {
    if (driver.isAnyDestroyed()) {
      return Failure.of(Failure.Kind.DRIVER, spec.label() + " was destroyed by the driver");
    }
    Message.Members all = members.get();
    return all == null
        ? Failure.of(Failure.Kind.ABORTED, obstacle.sentence())
        : Failure.aborted(
            obstacle.closedRank(),
            all.inRankOrder()[obstacle.closedRank()].process(),
            obstacle.sentence());
  }

  /**
   * The exception to throw for an exception of the native library.
   *
   * @param inCollective false for a transfer, of which a rank that has closed may have made its
   *     part
   */
  RuntimeException callFailed(CollectiveException e, boolean inCollective) {
    if (e instanceof BrokenLinkException broken) {
      linkBroke(broken);
    } else if (explainsItself(e)) {
      // The library's message already names every rank's call.
      failure.noteAndReport(e);
    } else if (!hasFailed() && !isEndedFromOutside()) {
      failure.noteAndReport(e);
    } else if (!hasFailed()) {
      // The member that ended the group reports the reason through the hub, which may take up to
      // the heartbeat limit.
      awaitReason(spec.config().heartbeatLimit().toNanos(), () -> inCollective && isFailedBeyond());
      if (isEndedWithoutFailure()) {
        return closed();
      }
      if (inCollective && isFailedBeyond()) {
        // A member in a transfer does not detect this by itself.
        failure.fail(closedBy(common.obstacle()), true);
      }
      failure.noteOwn(e);
    }
    Failure reason = failure.get();
    if (reason == null && isEndedWithoutFailure()) {
      return closed();
    }
    if (reason == null) {
      return e instanceof BrokenLinkException broken ? broken.toPeerLost() : e;
    }
    return failure.exception(reason);
  }

  /**
   * Finds the reason of a broken link: what the control channel says of the rank at its other end,
   * or else the link itself. The hub decides, because both ends, and all links of a host, may break
   * at once, and all members are to see the same failure.
   */
  private void linkBroke(BrokenLinkException e) {
    awaitReason(LINK_NANOS, () -> false);
    // The ends of a link say nothing of it once one of them closes.
    awaitReason(explanationNanos(e) - LINK_NANOS, () -> hasAnEndClosed(e));
    Failure lost = lossBy(e);
    if (!hasFailed() && !monitor.locked(life::isEnded)) {
      failure.report(lost);
      awaitReason(spec.config().heartbeatLimit().toNanos(), () -> false);
    }
    failure.note(lost); // does nothing if it has failed or ended
  }

  /**
   * Does that in steps that do not block, for a link that breaks while no call runs. Called by the
   * channel's thread, every turn.
   *
   * @param found why the native member is poisoned; null if it is not
   */
  void lookAtLinks(@Nullable CollectiveException found) {
    if (!(found instanceof BrokenLinkException e) || hasFailed() || isLeaving(e)) {
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

  /** Whether the link ended because a rank closes the group, which is no failure. */
  private boolean isLeaving(BrokenLinkException e) {
    return life.isClosing() || hasAnEndClosed(e);
  }

  private boolean hasAnEndClosed(BrokenLinkException e) {
    return (e.missing() >= 0 && common.hasClosed(e.missing()))
        || (e.origin() >= 0 && common.hasClosed(e.origin()));
  }

  /** The other members are told by the two ends, unless both have died. */
  private long explanationNanos(BrokenLinkException e) {
    return e.isAt(rank) || e.missing() < 0 ? LINK_NANOS : spec.config().heartbeatLimit().toNanos();
  }

  /** Which rank a broken link makes the lost one: seen from an end of the link, the other end. */
  private Failure lossBy(BrokenLinkException e) {
    boolean isMissing = e.missing() == rank;
    int lost = isMissing ? e.origin() : e.missing();
    int teller = isMissing ? rank : e.origin();
    Message.Members all = members.get();
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

  private void awaitReason(long nanos, BooleanSupplier orElse) {
    // An interrupt does not shorten it, because the wrong reason would be recorded.
    monitor.awaitUninterruptibly(
        () -> hasFailed() || life.isEnded() || orElse.getAsBoolean(), System.nanoTime() + nanos);
  }

  private boolean isEndedWithoutFailure() {
    return monitor.locked(() -> !hasFailed() && life.isEnded());
  }

  private boolean hasFailed() {
    return failure.get() != null;
  }

  private static boolean explainsItself(CollectiveException e) {
    return e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException;
  }

  private boolean isFailedBeyond() {
    NativeCommunicator comm = running.communicator();
    return comm != null && common.isFailedBeyond(comm);
  }

  /**
   * Whether the call was ended by poison from another member or thread, and not by an error of its
   * own.
   */
  private boolean isEndedFromOutside() {
    NativeCommunicator comm = running.communicator();
    return comm != null && comm.failure() != null;
  }

  /** {@link FirstFailure#throwIfAny}, including failures of enqueued work. */
  void throwIfFailed(NativeCommunicator comm) {
    failure.throwIfAny();
    if (life.isCutShort()) {
      throw closed();
    }
    CollectiveException e = running.isAsync() ? comm.failure() : null;
    if (e != null) {
      throw callFailed(e, true);
    }
  }

  /**
   * Whether {@link #throwIfFailed} would block: until the reason of the failure is known, or the
   * flight record that it names is written.
   */
  boolean awaitsReason(NativeCommunicator comm) {
    return awaitsExplanation(comm) || failure.awaitsMention();
  }

  private boolean awaitsExplanation(NativeCommunicator comm) {
    CollectiveException e =
        running.isAsync() && !hasFailed() && !life.isCutShort() ? comm.failure() : null;
    if (e == null || monitor.locked(life::isEnded)) {
      return false;
    }
    if (explainsItself(e)) {
      failure.noteAndReport(e);
      return false;
    }
    long now = System.nanoTime();
    if (unexplainedNanos == 0) {
      unexplainedNanos = now;
    }
    if (now - unexplainedNanos < spec.config().heartbeatLimit().toNanos()) {
      return true;
    }
    if (e instanceof BrokenLinkException broken) {
      failure.note(lossBy(broken));
    } else {
      failure.noteOwn(e);
    }
    return false;
  }

  /** The exception that {@link #throwIfFailed} would throw; null if it would block. */
  @Nullable RuntimeException failure(NativeCommunicator comm) {
    // First, because the flight record is started before the failure is seen: without a failure
    // nothing is known of the record, which known() would then leave out for ever.
    if (hasFailed()) {
      // Perhaps since its calls were checked, and not because of them.
      return failure.awaitsMention() ? null : failure.known();
    }
    boolean isAfterEnd =
        running.isAsync() && monitor.locked(life::isEnded) && comm.failure() != null;
    return life.isCutShort() || isAfterEnd ? closed() : null;
  }

  /** Records a failure of enqueued work even if no thread waits for its stream. */
  void lookAtDevice() {
    NativeCommunicator comm = running.communicator();
    if (running.isAsync() && comm != null && !hasFailed()) {
      noteFailureOnDevice(comm);
    }
  }

  /**
   * Does that for a group that has not failed. An aborting member reports the reason through the
   * hub; a member whose call timed out or differed may be in no call that could report it.
   */
  void noteFailureOnDevice(NativeCommunicator comm) {
    CollectiveException e = comm.failure();
    if (e != null && explainsItself(e)) {
      failure.noteAndReport(e);
    }
  }
}
