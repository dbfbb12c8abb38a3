package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.CommonCalls;
import io.nvrar.internal.call.RunningCalls;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Ticket;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What a member's callers are thrown when its group has failed or is closed: before a call, for
 * what the native library throws in one, and for what a device has met since. Any thread.
 */
final class CallErrors {
  private final Ticket ticket;
  private final int rank;
  private final Monitor monitor;
  private final MemberLife life;
  private final MemberDriver driver;
  private final FirstFailure failure;
  private final RunningCalls running;
  private final CommonCalls common;
  private final Supplier<Message.@Nullable Members> members;

  /** Since when it is known that calls have failed, and not why; 0 where it is not so. */
  private volatile long unexplainedNanos;

  /**
   * @param members null until they are known
   */
  CallErrors(
      Ticket ticket,
      int rank,
      Monitor monitor,
      MemberLife life,
      MemberDriver driver,
      FirstFailure failure,
      RunningCalls running,
      CommonCalls common,
      Supplier<Message.@Nullable Members> members) {
    this.ticket = ticket;
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
      throw closed(); // what others make of that close is news to them, and not to who closed
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
      // Recorded here only: the others may still be in calls that all have made, and each of them
      // comes to the same end by itself.
      failure.note(closedBy(common.obstacle()));
      failure.throwIfAny();
    }
  }

  /** For a call on a group that is closed. */
  IllegalStateException closed() {
    return new IllegalStateException(
        driver.isDestroyed()
            ? "%s was destroyed by the driver; rank %d can make no more calls"
                .formatted(ticket.label(), rank)
            : "%s is closed; rank %d can make no more calls".formatted(ticket.label(), rank));
  }

  /** Why a call cannot complete in which a rank takes no part. */
  Failure closedBy(CommonCalls.Obstacle obstacle) {
    if (driver.isAnyDestroyed()) {
      return Failure.of(Failure.Kind.DRIVER, ticket.label() + " was destroyed by the driver");
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
   * What to throw for what the native library has thrown.
   *
   * @param inCollective of a transfer a rank that has closed may have made its part
   */
  RuntimeException callFailed(CollectiveException e, boolean inCollective) {
    if (explainsItself(e)) {
      // The library's sentence names every rank's call: nothing to add.
      failure.noteAndReport(e);
    } else if (!hasFailed() && !isEndedFromOutside()) {
      failure.noteAndReport(e);
    } else if (!hasFailed()) {
      // Whoever ended the group tells the hub why, which may take it as long as a silence.
      try {
        monitor.await(
            () -> hasFailed() || life.isEnded() || (inCollective && isFailedBeyond()),
            System.nanoTime() + ticket.config().heartbeatLimit().toNanos());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
      if (monitor.locked(() -> !hasFailed() && life.isEnded())) {
        return closed();
      }
      if (inCollective && isFailedBeyond()) {
        // Who is in a transfer cannot tell by itself.
        failure.fail(closedBy(common.obstacle()), true);
      }
      failure.noteOwn(e);
    }
    Failure reason = failure.get();
    return reason == null ? e : failure.exception(reason);
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

  /** Whether a poison has ended the call, and not something that went wrong in it. */
  private boolean isEndedFromOutside() {
    NativeCommunicator comm = running.communicator();
    return comm != null && comm.failure() != null;
  }

  /** {@link FirstFailure#throwIfAny}, also for what a call on a device has met. */
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
   * Whether {@link #throwIfFailed} would wait: to hear why it has failed, or for the flight record
   * that it names.
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
    if (now - unexplainedNanos < ticket.config().heartbeatLimit().toNanos()) {
      return true;
    }
    failure.noteOwn(e);
    return false;
  }

  /** What {@link #throwIfFailed} would throw; null where it would wait. */
  @Nullable RuntimeException failure(NativeCommunicator comm) {
    if (failure.awaitsMention()) {
      return null; // it has failed since its calls were asked for, and not by them
    }
    CollectiveException known = failure.known();
    if (known != null) {
      return known;
    }
    boolean isAfterEnd =
        running.isAsync() && monitor.locked(life::isEnded) && comm.failure() != null;
    return life.isCutShort() || isAfterEnd ? closed() : null;
  }

  /** Notes a failure that a call on a device has met, where nobody waits for its stream. */
  void lookAtDevice() {
    NativeCommunicator comm = running.communicator();
    if (running.isAsync() && comm != null && !hasFailed()) {
      noteFailureOnDevice(comm);
    }
  }

  /**
   * The same of a group that has not failed. Who aborts says why through the hub; who runs out of
   * time, or differs, may be in no call that could.
   */
  void noteFailureOnDevice(NativeCommunicator comm) {
    CollectiveException e = comm.failure();
    if (e != null && explainsItself(e)) {
      failure.noteAndReport(e);
    }
  }
}
