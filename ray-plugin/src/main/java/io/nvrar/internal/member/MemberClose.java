package io.nvrar.internal.member;

import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.RunningCalls;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Ticket;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A member's close: it makes no more calls, tells the others when the last has ended, leaves when
 * all have done so or the group has failed, and frees what it holds when the channel's thread ends,
 * whatever made it end.
 */
final class MemberClose {
  private static final Logger LOG = LoggerFactory.getLogger(MemberClose.class);

  /** How long a forced end may take: the native member's own limit and a little more. */
  private static final long FORCED_END_NANOS = TimeUnit.SECONDS.toNanos(12);

  /** How long one that ends in order lets a device execute what was enqueued. */
  private static final long ENQUEUED_NANOS = TimeUnit.SECONDS.toNanos(8);

  /** How often it looks whether what was enqueued is executed. */
  private static final long ENQUEUED_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  private final Ticket ticket;
  private final int rank;
  private final Monitor monitor;
  private final ControlChannel channel;
  private final MemberLife life;
  private final MemberDriver driver;
  private final FirstFailure failure;
  private final RunningCalls running;

  // Guarded by the monitor. What the hub says, or that it is gone, comes in any phase, and counts
  // to the end; the stream is its user's to close until the end.
  private boolean allClosed;
  private boolean hubGone;
  private @Nullable AsyncStream ownStream;

  /**
   * Whether the others know this member's last call; of the channel's thread alone. No phase: all
   * can still turn out to be connected after that.
   */
  private boolean saidClosing;

  MemberClose(
      Ticket ticket,
      int rank,
      Monitor monitor,
      ControlChannel channel,
      MemberLife life,
      MemberDriver driver,
      FirstFailure failure,
      RunningCalls running) {
    this.ticket = ticket;
    this.rank = rank;
    this.monitor = monitor;
    this.channel = channel;
    this.life = life;
    this.driver = driver;
    this.failure = failure;
    this.running = running;
  }

  // How it begins.

  /**
   * Makes no more calls, and has the channel's thread tell so when a running one has ended; returns
   * at once.
   */
  void begin() {
    endCalls(false);
  }

  /** The same for a failed group that nobody will close; for its user it is not closed. */
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

  /** The group has failed; under the monitor. */
  void failed() {
    if (life.isClosing()) {
      leaveFailed();
    }
  }

  /**
   * Leaves a group that has failed here. It may have failed here alone, beyond the last call of one
   * that closed: so that the others need not wait for this member to close, and that rank 0 is not
   * taken for lost, it says that it does.
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
   * Tells the others that it closes, if it does and no call runs any more.
   *
   * @param comm null before there is one: then there is nothing to say, but there may be in a
   *     moment
   * @return whether it still has to
   */
  boolean mustStillSay(@Nullable NativeCommunicator comm) {
    boolean mustSay = life.isClosing() && !saidClosing;
    if (!mustSay || comm == null || running.haveCaller()) {
      return mustSay;
    }
    // No call runs here, and none can begin: the number of the last one is final.
    saidClosing = true;
    sayLastCall(comm);
    if (monitor.locked(() -> hasFailed() || hubGone)) {
      channel.leave();
    }
    return false;
  }

  /** The hub says that all have closed. */
  void allHaveClosed() {
    monitor.update(() -> allClosed = true);
    channel.leave();
  }

  /**
   * The hub is gone.
   *
   * @param orderly whether rank 0 has closed before
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

  /** The channel's thread ends: from here on nothing is a failure; {@link #free} follows. */
  void end() {
    monitor.update(
        () -> {
          life.ended();
          failure.over();
        });
  }

  void free() {
    NativeCommunicator comm = running.communicator();
    if (comm != null) {
      failure.awaitRecord(); // it reads what is about to be freed
      awaitEnqueued(comm);
      comm.close();
    }
    life.freed();
    retireStream(); // last: it waits for whatever else its user has submitted there
  }

  /**
   * Of a group that ends in order, what was enqueued before is still executed; the native member
   * would end it soon. Where it takes too long, whoever waits for its stream hears of that.
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
   * From here on the end of the channel's thread closes the group's own stream, unless its user
   * does: nobody else closes what the driver destroys.
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
      LOG.warn("The stream of {} was not freed in order: {}", ticket.label(), e.getMessage());
    }
  }

  // Of whoever closes.

  /** Leaves, whatever the others do; returns at once. */
  void leave() {
    channel.leave();
  }

  /** Waits until all is freed: in order for so long, then by leaving. */
  void awaitFreed(long orderlyNanos) {
    try {
      if (monitor.await(life::isFreed, System.nanoTime() + orderlyNanos)) {
        return;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // whoever interrupts wants no patience; freeing goes on
    }
    if (running.areAny() && !hasFailed()) {
      // The call is about to be aborted, and with it its peers', who wait to hear why. For this
      // member it is a close, also when the hub is quick to say it to all.
      life.cutShort();
      monitor.update(failure::over);
      channel.send(
          Failure.abortedHere(rank, "closed " + ticket.label() + " while its last call ran"));
    }
    channel.leave();
    monitor.awaitUninterruptibly(life::isFreed, System.nanoTime() + FORCED_END_NANOS);
  }

  /** Whether the group has come to its end in order, on all members. */
  boolean isAllClosed() {
    return monitor.locked(() -> allClosed);
  }
}
