package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import io.nvrar.internal.wire.Ticket;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Why a member's group has failed: noted once, with what every rank was doing and in a flight
 * record, told to the others, and thrown at every later call. Any thread.
 */
final class FirstFailure {
  private final Ticket ticket;
  private final int rank;
  private final Monitor monitor;
  private final ControlChannel channel;
  private final Runnable onFailure;
  private final FlightRecorder flight;

  private final FailureListeners listeners;

  /** Written once, under the monitor. */
  private volatile @Nullable Failure failure;

  /** What led to it, where that is an exception of this process; written before it. */
  private volatile @Nullable Throwable cause;

  /** The end of every message: the first that is made decides it. Guarded by the monitor. */
  private @Nullable String flightClause;

  private volatile @Nullable NativeCommunicator communicator;

  // Guarded by the monitor.
  private Message.@Nullable Members formed;
  private boolean isOver;

  /**
   * @param onFailure called once, under the monitor
   */
  FirstFailure(
      Ticket ticket, int rank, Monitor monitor, ControlChannel channel, Runnable onFailure) {
    this.ticket = ticket;
    this.rank = rank;
    this.monitor = monitor;
    this.channel = channel;
    this.onFailure = onFailure;
    flight = new FlightRecorder(ticket, rank);
    listeners = new FailureListeners(ticket, rank, monitor, this::known, this::awaited);
  }

  /** From here on a failure ends the calls of this member. */
  void own(NativeCommunicator comm) {
    communicator = comm;
  }

  /** From here on the ranks' calls can be seen; under the monitor. */
  void formed(Message.Members members) {
    formed = members;
  }

  /** From here on nothing is a failure; under the monitor. */
  void over() {
    isOver = true;
    listeners.over();
  }

  FailureListeners listeners() {
    return listeners;
  }

  /** From here on an end is what the driver wants and nothing that needs a record. */
  void expectEnd() {
    flight.disable();
  }

  @Nullable Failure get() {
    return failure;
  }

  void throwIfAny() {
    Failure reason = failure;
    if (reason != null) {
      throw exception(reason);
    }
  }

  /** With a stack of the caller's, and where the flight record lies. */
  CollectiveException exception(Failure reason) {
    flight.awaitMention();
    return withoutWaiting(reason);
  }

  /** The same, once there is a failure. */
  private CollectiveException awaited() {
    return exception(Objects.requireNonNull(failure));
  }

  /** The same, null if there is no failure; does not wait until the flight record is written. */
  @Nullable CollectiveException known() {
    Failure reason = failure;
    return reason == null ? null : withoutWaiting(reason);
  }

  /** Whether {@link #exception} would wait now; {@link #known} would name no flight record. */
  boolean awaitsMention() {
    return flight.awaitsMention();
  }

  private CollectiveException withoutWaiting(Failure reason) {
    String clause =
        monitor.locked(
            () -> {
              String decided = flightClause;
              if (decided == null) {
                decided = flight.clause();
                flightClause = decided;
              }
              return decided;
            });
    CollectiveException e = reason.withMessage(reason.message() + clause).toException();
    Throwable ledTo = cause;
    if (ledTo != null) {
      e.initCause(ledTo);
    }
    return e;
  }

  /** Waits until the flight record has read what the native member holds. */
  void awaitRecord() {
    flight.await();
  }

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      comm.abort(); // first: what follows allocates, and so may wait for the garbage collector
    }
    note(reason, report ? reason : null, null);
  }

  /** Fails the group on all members for a reason of this one's user. */
  void abort(Failure reason, @Nullable Throwable ledTo) {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      comm.abort();
    }
    note(reason, reason, ledTo);
  }

  /** Notes the failure with what each rank was doing. */
  void note(Failure reason) {
    note(reason, null, null);
  }

  private void note(Failure reason, @Nullable Failure toOthers, @Nullable Throwable ledTo) {
    NativeCommunicator comm = communicator;
    boolean visible = comm != null && monitor.locked(() -> formed) != null;
    noteAsIs(
        comm == null || !visible || reason.namesCalls()
            ? reason
            : reason.withMessage(
                reason.message() + Activities.seenBy(comm, rank, ticket.worldSize())),
        toOthers,
        ledTo);
  }

  /** Notes what the native library has thrown here. */
  void noteOwn(CollectiveException e) {
    noteAsIs(of(e), null, null);
  }

  /** Notes what the native library has thrown here, and tells the others. */
  void noteAndReport(CollectiveException e) {
    Failure own = of(e);
    noteAsIs(
        own,
        own.forOthers("rank %d (%s): %s".formatted(rank, ProcessIdentity.current(), own.message())),
        null);
  }

  private static Failure of(CollectiveException e) {
    Failure own = Failure.like(e, String.valueOf(e.getMessage()));
    return e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException
        ? own.namingCalls()
        : own;
  }

  private void noteAsIs(Failure reason, @Nullable Failure toOthers, @Nullable Throwable ledTo) {
    NativeCommunicator comm = communicator;
    monitor.update(
        () -> {
          if (failure != null || isOver) {
            return;
          }
          Message.Members members = formed;
          if (comm != null && members != null) {
            // Before anyone can see the failure and ask for the file.
            flight.start(comm, members, reason);
          }
          cause = ledTo;
          failure = reason;
          if (toOthers != null) {
            // Before anyone here learns of the failure and leaves: nothing follows the goodbye.
            channel.send(toOthers);
          }
          onFailure.run();
          listeners.failed();
        });
  }
}
