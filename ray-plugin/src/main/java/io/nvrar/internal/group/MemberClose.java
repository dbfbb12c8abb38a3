package io.nvrar.internal.group;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.group.GroupState.Fact;
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
  private final GroupAgent agent;
  private final ControlChannel channel;
  private final MemberFailures failure;

  /** The user may close it until the end. Guarded by the agent's monitor. */
  private @Nullable AsyncStream ownStream;

  /**
   * Whether the other members know this member's last call. Used by the channel's thread only. It
   * is not a phase, because the last member may still connect after that.
   */
  private boolean saidClosing;

  MemberClose(
      GroupSpec spec, int rank, GroupAgent agent, ControlChannel channel, MemberFailures failure) {
    this.spec = spec;
    this.rank = rank;
    this.agent = agent;
    this.channel = channel;
    this.failure = failure;
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
    if (agent.change(state -> state.callsEnd(byItself)).hasFailed()) {
      leaveFailed();
    }
    channel.wake();
  }

  /** The group has failed. Called under the agent's monitor. */
  void failed() {
    if (agent.state().isClosing()) {
      leaveFailed();
    }
  }

  /**
   * Leaves a group that has failed on this member. It may have failed on this member alone, after
   * the last call of a member that closed. Therefore the member announces its close, so that the
   * others need not wait for it, and rank 0 is not considered lost.
   */
  private void leaveFailed() {
    GroupState seen = agent.state();
    NativeCommunicator comm = seen.communicator();
    if (comm != null && seen.has(Fact.FORMED)) {
      sayLastCall(comm);
    }
    channel.leave();
  }

  private void sayLastCall(NativeCommunicator comm) {
    channel.send(
        new Message.Closing(rank, comm.lastCollective(), agent.state().has(Fact.DESTROYED)));
  }

  // On the channel's thread.

  /**
   * Announces the close to the other members, if this member closes and no call is running.
   *
   * @return whether the close still has to be announced
   */
  boolean mustStillSay() {
    GroupState seen = agent.state();
    NativeCommunicator comm = seen.communicator();
    boolean mustSay = seen.isClosing() && !saidClosing;
    // Without a native member there is nothing to announce yet.
    if (!mustSay || comm == null || agent.hasCaller()) {
      return mustSay;
    }
    // No call is running, and none can begin, so the number of the last call is final.
    sayLastCall(comm);
    saidClosing = true; // not before: an error may have kept the message from being made
    GroupState now = agent.state();
    if (now.hasFailed() || now.has(Fact.HUB_GONE)) {
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
    agent.change(state -> state.with(Fact.ALL_CLOSED));
    channel.leave();
  }

  /**
   * The hub is gone.
   *
   * @param orderly whether rank 0 had closed before
   */
  void hubIsGone(boolean orderly) {
    GroupState now = agent.change(state -> state.with(Fact.HUB_GONE));
    if (now.hasFailed() ? now.isClosing() : orderly && saidClosing) {
      channel.leave();
    }
  }

  /** The channel's thread ends: from now on nothing counts as a failure; {@link #free} follows. */
  void end() {
    agent.update(
        () -> {
          agent.change(GroupState::ended);
          failure.noMoreFailures();
        });
  }

  void free() {
    NativeCommunicator comm = agent.state().communicator();
    withdrawUnlessFailed();
    if (comm != null) {
      failure.awaitRecord(); // the recorder reads memory that is freed next
      awaitEnqueued(comm);
      comm.close();
    }
    agent.change(GroupState::freed);
    withdrawUnlessFailed(); // once more: the member may have announced itself meanwhile
    // Last, because it waits for other work that the user has submitted to the stream.
    retireStream();
  }

  /** What has failed is shown until somebody closes it. */
  void withdrawUnlessFailed() {
    GroupState seen = agent.state();
    if (seen.isClosed() || !seen.hasFailed()) {
      failure.withdraw();
    }
  }

  /**
   * Waits until the enqueued work of a group that ends in order has been executed, which the native
   * member would abort soon. If it takes too long, waits for the stream throw that.
   */
  private void awaitEnqueued(NativeCommunicator comm) {
    if (!agent.state().isAsync() || !isAllClosed()) {
      return;
    }
    long deadline = System.nanoTime() + ENQUEUED_NANOS;
    while (!agent.state().hasFailed()
        && !agent.state().isCutShort()
        && comm.failure() == null
        && !agent.hasExecuted(comm)) {
      if (System.nanoTime() - deadline > 0) {
        agent.change(GroupState::cutShort);
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
        agent.locked(
            () -> {
              ownStream = stream;
              return agent.state().isFreed();
            });
    if (late) {
      retireStream();
    }
  }

  /** The user closes the group's own stream. */
  void disownStream() {
    agent.update(() -> ownStream = null);
  }

  private void retireStream() {
    AsyncStream stream =
        agent.locked(
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
    if (agent.awaitState(GroupState::isFreed, System.nanoTime() + orderlyNanos)) {
      return;
    }
    if (agent.hasCalls() && cutShort()) {
      // The call is about to be aborted, and with it those of the peers, which need a reason.
      channel.send(
          Failure.abortedHere(rank, "closed " + spec.label() + " while its last call ran"));
    }
    channel.leave();
    agent.awaitState(GroupState::isFreed, System.nanoTime() + FORCED_END_NANOS);
  }

  /**
   * Makes the abort of a running call part of the close: for this member it counts as a close, even
   * if the hub reports the abort before that. Returns false if the group has failed.
   */
  private boolean cutShort() {
    return agent.locked(
        () -> {
          if (agent.state().hasFailed()) {
            return false;
          }
          agent.change(GroupState::cutShort);
          failure.noMoreFailures();
          return true;
        });
  }

  /** Whether the group has ended in order on all members. */
  boolean isAllClosed() {
    return agent.state().has(Fact.ALL_CLOSED);
  }
}
