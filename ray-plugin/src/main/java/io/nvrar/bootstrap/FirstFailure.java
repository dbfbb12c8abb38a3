package io.nvrar.bootstrap;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.NativeCommunicator;
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

  /** Written once, under the monitor. */
  private volatile @Nullable Failure failure;

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
    return reason.withMessage(reason.message() + flight.awaitClause()).toException();
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
    note(reason, report ? reason : null);
  }

  /** Notes the failure with what each rank was doing. */
  void note(Failure reason) {
    note(reason, null);
  }

  private void note(Failure reason, @Nullable Failure toOthers) {
    NativeCommunicator comm = communicator;
    boolean visible = comm != null && monitor.locked(() -> formed) != null;
    noteAsIs(
        comm == null || !visible || reason.namesCalls()
            ? reason
            : reason.withMessage(
                reason.message() + Activities.seenBy(comm, rank, ticket.worldSize())),
        toOthers);
  }

  /** Notes what the native library has thrown here. */
  void noteOwn(CollectiveException e) {
    noteAsIs(of(e), null);
  }

  /** Notes what the native library has thrown here, and tells the others. */
  void noteAndReport(CollectiveException e) {
    Failure own = of(e);
    noteAsIs(
        own,
        own.forOthers(
            "rank %d (%s): %s".formatted(rank, ProcessIdentity.current(), own.message())));
  }

  private static Failure of(CollectiveException e) {
    Failure own = Failure.like(e, String.valueOf(e.getMessage()));
    return e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException
        ? own.namingCalls()
        : own;
  }

  private void noteAsIs(Failure reason, @Nullable Failure toOthers) {
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
          failure = reason;
          if (toOthers != null) {
            // Before anyone here learns of the failure and leaves: nothing follows the goodbye.
            channel.send(toOthers);
          }
          onFailure.run();
        });
  }
}
