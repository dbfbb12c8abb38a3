package io.nvrar.internal.member;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.RunningCalls;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A member's close. The member accepts no more calls, announces its close when the last call has
 * ended, leaves when all members have done so or the group has failed, and frees its resources when
 * the channel's thread ends, for whatever reason.
 */
final class MemberClose {
  private static final Logger LOG = LoggerFactory.getLogger(MemberClose.class);

  /** How long a forced end may take: the native member's own limit plus a margin. */
  private static final long FORCED_END_NANOS = TimeUnit.SECONDS.toNanos(12);

  /** How long an orderly close waits until a device has executed enqueued work. */
  private static final long ENQUEUED_NANOS = TimeUnit.SECONDS.toNanos(8);

  /** How often it checks whether enqueued work has been executed. */
  private static final long ENQUEUED_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  private final GroupSpec spec;
  private final int rank;
  private final Monitor monitor;
  private final ControlChannel channel;
  private final MemberLife life;
  private final MemberDriver driver;
  private final FirstFailure failure;
  private final RunningCalls running;

  // Guarded by the monitor. The hub's messages and its loss may come in any phase and stay valid;
  // the user may close the stream until the end.
  private boolean allClosed;
  private boolean hubGone;
  private @Nullable AsyncStream ownStream;

  /**
   * Whether the other members know this member's last call. Used by the channel's thread only. It
   * is not a phase, because the last member may still connect after that.
   */
  private boolean saidClosing;

  MemberClose(
      GroupSpec spec,
      int rank,
      Monitor monitor,
      ControlChannel channel,
      MemberLife life,
      MemberDriver driver,
      FirstFailure failure,
      RunningCalls running) {
    this.spec = spec;
    this.rank = rank;
    this.monitor = monitor;
    this.channel = channel;
    this.life = life;
    this.driver = driver;
    this.failure = failure;
    this.running = running;
  }

  // Beginning the close.

  /**
   * Refuses further calls, and makes the channel's thread announce the close when a running call
   * has ended. Returns at once.
   */
  void begin() {
    endCalls(false);
  }

  /**
   * Begins the close of a failed group that nobody will close; for its user the group is not
   * closed.
   */
  void beginByItself() {
    endCalls(true);
  }

  private void endCalls(boolean byItself) {
    if (life.endCalls(byItself, this::hasFailed)) {
      leaveFailed();
    }
    channel.wake();
  }

  private boolean hasFailed() {
    return failure.get() != null;
  }

  /** The group has failed. Called under the monitor. */
  void failed() {
    if (life.isClosing()) {
      leaveFailed();
    }
  }

  /**
   * Leaves a group that has failed on this member. It may have failed on this member alone, after
   * the last call of a member that closed. Therefore the member announces its close, so that the
   * others need not wait for it, and rank 0 is not considered lost.
   */
  private void leaveFailed() {
    NativeCommunicator comm = running.communicator();
    if (comm != null && monitor.locked(life::isReady)) {
      sayLastCall(comm);
    }
    channel.leave();
  }

  private void sayLastCall(NativeCommunicator comm) {
    channel.send(new Message.Closing(rank, comm.lastCollective(), driver.isDestroyed()));
  }

  // On the channel's thread.

  /**
   * Announces the close to the other members, if this member closes and no call is running.
   *
   * @param comm null before there is one: then there is nothing to announce yet
   * @return whether the close still has to be announced
   */
  boolean mustStillSay(@Nullable NativeCommunicator comm) {
    boolean mustSay = life.isClosing() && !saidClosing;
    if (!mustSay || comm == null || running.haveCaller()) {
      return mustSay;
    }
    // No call is running, and none can begin, so the number of the last call is final.
    sayLastCall(comm);
    saidClosing = true; // not before: an error may have kept the message from being made
    if (monitor.locked(() -> hasFailed() || hubGone)) {
      channel.leave();
    }
    return false;
  }

  /** Whether the other members know this member's last call. */
  boolean isAnnounced() {
    return saidClosing;
  }

  /** The hub reports that all members have closed. */
  void allHaveClosed() {
    monitor.update(() -> allClosed = true);
    channel.leave();
  }

  /**
   * The hub is gone.
   *
   * @param orderly whether rank 0 had closed before
   */
  void hubIsGone(boolean orderly) {
    boolean mayLeave =
        monitor.locked(
            () -> {
              hubGone = true;
              return hasFailed() ? life.isClosing() : orderly && saidClosing;
            });
    if (mayLeave) {
      channel.leave();
    }
  }

  boolean isHubGone() {
    return monitor.locked(() -> hubGone);
  }

  /** The channel's thread ends: from now on nothing counts as a failure; {@link #free} follows. */
  void end() {
    monitor.update(
        () -> {
          life.ended();
          failure.noMoreFailures();
        });
  }

  void free() {
    NativeCommunicator comm = running.communicator();
    if (life.isClosed() || !hasFailed()) {
      failure.withdraw(); // what has failed is shown until somebody closes it
    }
    if (comm != null) {
      failure.awaitRecord(); // the recorder reads memory that is freed next
      awaitEnqueued(comm);
      comm.close();
    }
    life.freed();
    if (life.isClosed() || !hasFailed()) {
      failure.withdraw(); // once more: the member may have announced itself meanwhile
    }
    // Last, because it waits for other work that the user has submitted to the stream.
    retireStream();
  }

  /**
   * Waits until the enqueued work of a group that ends in order has been executed, which the native
   * member would abort soon. If it takes too long, waits for the stream throw that.
   */
  private void awaitEnqueued(NativeCommunicator comm) {
    if (!running.isAsync() || !isAllClosed()) {
      return;
    }
    long deadline = System.nanoTime() + ENQUEUED_NANOS;
    while (!hasFailed()
        && !life.isCutShort()
        && comm.failure() == null
        && !running.areExecuted(comm)) {
      if (System.nanoTime() - deadline > 0) {
        life.cutShort();
      }
      LockSupport.parkNanos(ENQUEUED_POLL_NANOS);
    }
  }

  /**
   * From now on the channel's thread closes the group's own stream when it ends, unless the user
   * does: nobody else closes it if the driver destroys the group.
   */
  void own(AsyncStream stream) {
    boolean late =
        monitor.locked(
            () -> {
              ownStream = stream;
              return life.isFreed();
            });
    if (late) {
      retireStream();
    }
  }

  /** The user closes the group's own stream. */
  void disownStream() {
    monitor.update(() -> ownStream = null);
  }

  private void retireStream() {
    AsyncStream stream =
        monitor.locked(
            () -> {
              AsyncStream own = ownStream;
              ownStream = null;
              return own;
            });
    if (stream == null) {
      return;
    }
    try {
      stream.retire();
    } catch (RuntimeException e) {
      LOG.warn("The stream of {} was not freed in order: {}", spec.label(), e.getMessage());
    }
  }

  // Called by the closing thread.

  /** Leaves without waiting for the others; returns at once. */
  void leave() {
    channel.leave();
  }

  /** Waits until everything is freed: for this long in order, then by leaving. */
  void awaitFreed(long orderlyNanos) {
    // An interrupt does not shorten it, because that would end calls of the other members.
    if (monitor.awaitUninterruptibly(life::isFreed, System.nanoTime() + orderlyNanos)) {
      return;
    }
    if (running.areAny() && !hasFailed()) {
      // The call is about to be aborted, and with it those of the peers, which need a reason. For
      // this member it counts as a close, even if the hub reports the abort before that.
      life.cutShort();
      monitor.update(failure::noMoreFailures);
      channel.send(
          Failure.abortedHere(rank, "closed " + spec.label() + " while its last call ran"));
    }
    channel.leave();
    monitor.awaitUninterruptibly(life::isFreed, System.nanoTime() + FORCED_END_NANOS);
  }

  /** Whether the group has ended in order on all members. */
  boolean isAllClosed() {
    return monitor.locked(() -> allClosed);
  }
}
