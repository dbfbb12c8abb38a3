package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.events.GroupEvents;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The first failure of a member's group. It is recorded once, with what every rank was doing,
 * written to a flight record, reported to the other members, and thrown by every later call.
 * Thread-safe.
 */
final class FirstFailure {
  private final GroupSpec spec;
  private final int rank;
  private final Monitor monitor;
  private final ControlChannel channel;
  private final Runnable onFailure;
  private final FlightRecorder flight;

  private final FailureListeners listeners;

  /** Written once, under the monitor. */
  private volatile @Nullable Failure failure;

  /** The cause, if it is an exception of this process; written before {@code failure}. */
  private volatile @Nullable Throwable cause;

  /**
   * The clause on the flight record at the end of every message; fixed by the first message that is
   * built. Guarded by the monitor.
   */
  private @Nullable String flightClause;

  private volatile @Nullable NativeCommunicator communicator;

  // Guarded by the monitor.
  private Message.@Nullable Members formed;
  private boolean isOver;
  private @Nullable Failure breaking;
  private @Nullable Throwable breakingBy;

  /** Made beforehand, because it has to run when there is no memory. */
  private final Runnable breakNow = this::breakNow;

  /**
   * @param onFailure called once, under the monitor
   */
  FirstFailure(
      GroupSpec spec, int rank, Monitor monitor, ControlChannel channel, Runnable onFailure) {
    this.spec = spec;
    this.rank = rank;
    this.monitor = monitor;
    this.channel = channel;
    this.onFailure = onFailure;
    flight = new FlightRecorder(spec, rank);
    listeners = new FailureListeners(spec, rank, monitor, () -> failure != null, this::awaited);
  }

  /** From now on a failure aborts the calls of this member. */
  void own(NativeCommunicator comm) {
    communicator = comm;
  }

  /** From now on the ranks' calls can be read. Called under the monitor. */
  void formed(Message.Members members) {
    formed = members;
  }

  /**
   * From now on nothing counts as a failure. Called under the monitor; may be called again if it
   * throws.
   */
  void noMoreFailures() {
    isOver = true;
    listeners.noMoreFailures();
  }

  FailureListeners listeners() {
    return listeners;
  }

  /** From now on the end of the group is intended by the driver and needs no flight record. */
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

  /** An exception with the caller's stack trace, which names the flight record. */
  CollectiveException exception(Failure reason) {
    flight.awaitMention();
    return withoutWaiting(reason);
  }

  /** Such an exception, when there is a failure. */
  private CollectiveException awaited() {
    return exception(Objects.requireNonNull(failure));
  }

  /**
   * Such an exception, or null if there is no failure; does not wait until the flight record is
   * written.
   */
  @Nullable CollectiveException known() {
    Failure reason = failure;
    return reason == null ? null : withoutWaiting(reason);
  }

  /**
   * Whether {@link #exception} would block now; {@link #known} would then not wait for the flight
   * record.
   */
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

  /** A clause for those who are not on this host, with the flight record that a failure makes. */
  String recordPlace(Hosts hosts) {
    return flight.place(hosts);
  }

  /** {@link io.nvrar.CollectiveGroup#writeFlightRecord}. */
  void writeRecord(Path file, Message.Members members) throws IOException {
    flight.writeTo(file, Objects.requireNonNull(communicator), members, failure);
  }

  /** Lets {@code nvrar top} find this member. */
  void announce(byte[] descriptor, Message.Members members) {
    flight.announce(descriptor, members);
    Failure reason = failure;
    if (reason != null) {
      flight.announceFailure(reason); // it may have come before the announcement
    }
  }

  /** Ends {@link #announce}. */
  void withdraw() {
    flight.withdraw();
  }

  /** Waits until the flight recorder has read the native member's calls. */
  void awaitRecord() {
    flight.await();
  }

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      // First, because the code below allocates and may so wait for the garbage collector.
      comm.abort();
    }
    note(reason, report ? reason : null, null);
  }

  /** Fails the group on all members, for a reason given by this member's user. */
  void abort(Failure reason, @Nullable Throwable ledTo) {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      comm.abort();
    }
    note(reason, reason, ledTo);
  }

  /**
   * Reports a failure to the hub without recording it: all members, this one too, record what the
   * hub makes of it.
   */
  void report(Failure reason) {
    channel.send(reason);
  }

  /** Records the failure with what each rank was doing. */
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
                reason.message() + Activities.seenBy(comm, rank, spec.worldSize())),
        toOthers,
        ledTo);
  }

  /** Records an exception of the native library. */
  void noteOwn(CollectiveException e) {
    noteAsIs(of(e), null, null);
  }

  /** Records an exception of the native library, and reports it to the other members. */
  void noteAndReport(CollectiveException e) {
    Failure own = of(e);
    noteAsIs(
        own,
        own.forOthers(
            String.format(
                Locale.ROOT, "rank %d (%s): %s", rank, ProcessIdentity.current(), own.message())),
        null);
  }

  private static Failure of(CollectiveException e) {
    Failure own = Failure.like(e, String.valueOf(e.getMessage()));
    return e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException
        ? own.namingCalls()
        : own;
  }

  /**
   * Records that the channel's thread is ended by an error; allocates nothing. Called by that
   * thread only; {@link #finishBreak} follows.
   *
   * @return whether this is the first failure
   */
  @SuppressWarnings("ReferenceEquality") // two failures may have the same text
  boolean breaks(Failure reason, Throwable by) {
    breaking = reason;
    breakingBy = by;
    monitor.update(breakNow);
    return failure == reason;
  }

  private void breakNow() {
    if (failure == null && !isOver) {
      cause = breakingBy;
      failure = breaking;
    }
  }

  /** What a failure entails, after {@link #breaks}; may be repeated if an error interrupts it. */
  void finishBreak() {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      comm.abort();
    }
    Failure reason = Objects.requireNonNull(failure);
    monitor.update(
        () -> {
          Message.Members members = formed;
          if (comm != null && members != null && !flight.isStarted()) {
            flight.start(comm, members, reason);
          }
          onFailure.run();
          listeners.failed();
        });
    GroupEvents.failed(spec.label(), rank, reason.toException());
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
            // Before any thread can see the failure and ask for the file.
            flight.start(comm, members, reason);
          }
          cause = ledTo;
          failure = reason;
          if (toOthers != null) {
            // Before any thread of this process learns of the failure and leaves: nothing can be
            // sent after the goodbye.
            channel.send(toOthers);
          }
          onFailure.run();
          listeners.failed();
          GroupEvents.failed(spec.label(), rank, reason.toException());
        });
  }
}
