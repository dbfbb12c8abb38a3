package io.nvrar.internal.group;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.binding.BrokenLinkException;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.ClosedRanks;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.events.GroupEvents;
import io.nvrar.internal.group.GroupState.Fact;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The one place that finds why a member's group has failed, and makes what its calls throw. The
 * first failure is recorded once, with what every rank was doing, written to a flight record,
 * reported to the other members, and thrown by every later call. Its exception is made by {@link
 * Failure#toException}. Thread-safe.
 */
final class MemberFailures {
  private final GroupSpec spec;
  private final int rank;
  private final GroupAgent agent;
  private final ControlChannel channel;
  private final Runnable onFailure;
  private final FlightRecorder flight;
  private final FailureListeners listeners;
  private final LinkLoss links;

  /**
   * The clause on the flight record at the end of every message; fixed by the first message that is
   * built. Guarded by the agent's monitor.
   */
  private @Nullable String flightClause;

  /**
   * Since when calls are known to have failed for an unknown reason; 0 if there is no such failure.
   */
  private volatile long unexplainedNanos;

  /**
   * @param onFailure called once, under the agent's monitor
   */
  MemberFailures(
      GroupSpec spec, int rank, GroupAgent agent, ControlChannel channel, Runnable onFailure) {
    this.spec = spec;
    this.rank = rank;
    this.agent = agent;
    this.channel = channel;
    this.onFailure = onFailure;
    flight = new FlightRecorder(spec, rank);
    listeners = new FailureListeners(spec, rank, agent, this::hasFailed, this::awaited);
    links = new LinkLoss(spec, rank, agent, this);
  }

  FailureListeners listeners() {
    return listeners;
  }

  /** Links that break while no call runs. */
  LinkLoss links() {
    return links;
  }

  private boolean hasFailed() {
    return agent.state().hasFailed();
  }

  // Recording.

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    abortCalls(); // first, because what follows allocates and may so wait for the garbage collector
    note(reason, report ? reason : null, null);
  }

  /** Fails the group on all members, for a reason given by this member's user. */
  void abort(Failure reason, @Nullable Throwable ledTo) {
    abortCalls();
    note(reason, reason, ledTo);
  }

  private void abortCalls() {
    NativeCommunicator comm = agent.state().communicator();
    if (comm != null) {
      comm.abort();
    }
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
    GroupState seen = agent.state();
    NativeCommunicator comm = seen.communicator();
    noteAsIs(
        comm == null || !seen.has(Fact.FORMED) || reason.namesCalls()
            ? reason
            : reason.withMessage(
                reason.message() + Activities.seenBy(comm, rank, spec.worldSize())),
        toOthers,
        ledTo);
  }

  /** Records an exception of the native library. */
  private void noteOwn(CollectiveException e) {
    noteAsIs(of(e), null, null);
  }

  /** Records an exception of the native library, and reports it to the other members. */
  private void noteAndReport(CollectiveException e) {
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
    return explainsItself(e) ? own.namingCalls() : own;
  }

  /** Whether the library's message already names every rank's call. */
  private static boolean explainsItself(CollectiveException e) {
    return e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException;
  }

  private void noteAsIs(Failure reason, @Nullable Failure toOthers, @Nullable Throwable ledTo) {
    agent.update(
        () -> {
          GroupState seen = agent.state();
          GroupState failed = seen.failed(reason, ledTo);
          if (failed == seen) {
            return;
          }
          startRecord(seen, reason); // before any thread can see the failure and ask for the file
          if (toOthers != null) {
            // Before any thread of this process learns of the failure and leaves: nothing can be
            // sent after the goodbye.
            channel.send(toOthers);
          }
          agent.publish(failed);
          onFailure.run();
          listeners.failed();
          GroupEvents.failed(spec.label(), rank, reason.toException());
        });
  }

  private void startRecord(GroupState seen, Failure reason) {
    NativeCommunicator comm = seen.communicator();
    if (comm != null && seen.has(Fact.FORMED) && !flight.isStarted()) { // finishBreakDown repeats
      flight.start(comm, Objects.requireNonNull(seen.members()), reason);
    }
  }

  /**
   * What the failure entails that {@link GroupAgent#breakDown} has recorded; may be repeated if an
   * error interrupts it.
   */
  void finishBreakDown() {
    abortCalls();
    Failure reason = Objects.requireNonNull(agent.state().failure());
    agent.update(
        () -> {
          startRecord(agent.state(), reason);
          onFailure.run();
          listeners.failed();
        });
    GroupEvents.failed(spec.label(), rank, reason.toException());
  }

  // What calls throw.

  /**
   * Throws if no further call can be made.
   *
   * @param seen the state in which it is to be made
   * @param inCollective false for a transfer, which a closed third rank does not affect
   */
  void check(GroupState seen, boolean inCollective) {
    if (seen.isClosedFirst()) {
      throw closed(); // not the peers' failure that followed from this close
    }
    throwIfAny(seen);
    if (seen.isClosing()) {
      throw closed();
    }
    NativeCommunicator comm = seen.communicator();
    if (inCollective && comm != null && seen.closedRanks().missNext(comm)) {
      // Recorded on this member only: the others may still be in calls that all ranks have made,
      // and each of them detects the same failure by itself.
      note(closedBy(seen.closedRanks().obstacle()));
      throwIfAny(agent.state());
    }
  }

  void throwIfAny() {
    throwIfAny(agent.state());
  }

  private void throwIfAny(GroupState seen) {
    Failure reason = seen.failure();
    if (reason != null) {
      throw exception(reason);
    }
  }

  /** For a call on a group that is closed. */
  IllegalStateException closed() {
    return new IllegalStateException(
        agent.state().has(Fact.DESTROYED)
            ? String.format(
                Locale.ROOT,
                "%s was destroyed by the driver; rank %d can make no more calls",
                spec.label(),
                rank)
            : String.format(
                Locale.ROOT, "%s is closed; rank %d can make no more calls", spec.label(), rank));
  }

  /** The failure of a call that cannot complete because a rank takes no part in it. */
  Failure closedBy(ClosedRanks.Obstacle obstacle) {
    GroupState seen = agent.state();
    if (seen.isAnyDestroyed()) {
      return Failure.of(Failure.Kind.DRIVER, spec.label() + " was destroyed by the driver");
    }
    Message.Members all = seen.members();
    return all == null
        ? Failure.of(Failure.Kind.ABORTED, obstacle.sentence())
        : Failure.aborted(
            obstacle.closedRank(),
            all.inRankOrder()[obstacle.closedRank()].process(),
            obstacle.sentence());
  }

  /** An exception with the caller's stack trace, which names the flight record. */
  private CollectiveException exception(Failure reason) {
    flight.awaitMention();
    return withoutWaiting(reason);
  }

  /** Such an exception, when there is a failure. */
  private CollectiveException awaited() {
    return exception(Objects.requireNonNull(agent.state().failure()));
  }

  /**
   * Such an exception, or null if there is no failure; does not wait until the flight record is
   * written.
   */
  @Nullable CollectiveException known() {
    Failure reason = agent.state().failure();
    return reason == null ? null : withoutWaiting(reason);
  }

  private CollectiveException withoutWaiting(Failure reason) {
    String clause =
        agent.locked(
            () -> {
              String decided = flightClause;
              if (decided == null) {
                decided = flight.clause();
                flightClause = decided;
              }
              return decided;
            });
    CollectiveException e = reason.withMessage(reason.message() + clause).toException();
    Throwable ledTo = agent.state().cause();
    if (ledTo != null) {
      e.initCause(ledTo);
    }
    return e;
  }

  /**
   * The exception to throw for an exception of the native library.
   *
   * @param inCollective false for a transfer, of which a rank that has closed may have made its
   *     part
   */
  RuntimeException callFailed(CollectiveException e, boolean inCollective) {
    if (e instanceof BrokenLinkException broken) {
      links.explain(broken);
    } else if (explainsItself(e)) {
      noteAndReport(e);
    } else if (!hasFailed() && !isEndedFromOutside()) {
      noteAndReport(e);
    } else if (!hasFailed()) {
      // The member that ended the group reports the reason through the hub, which may take up to
      // the heartbeat limit.
      awaitReason(
          spec.config().heartbeatLimit().toNanos(), state -> inCollective && missFailed(state));
      GroupState seen = agent.state();
      if (!seen.hasFailed() && seen.isEnded()) {
        return closed();
      }
      if (inCollective && missFailed(seen)) {
        // A member in a transfer does not detect this by itself.
        fail(closedBy(seen.closedRanks().obstacle()), true);
      }
      noteOwn(e);
    }
    GroupState seen = agent.state();
    Failure reason = seen.failure();
    if (reason != null) {
      return exception(reason);
    }
    if (seen.isEnded()) {
      return closed();
    }
    return e instanceof BrokenLinkException broken ? broken.toPeerLost() : e;
  }

  /** Waits until the reason of a failure is known, the member has ended, or {@code orElse}. */
  void awaitReason(long nanos, Predicate<GroupState> orElse) {
    // An interrupt does not shorten it, because the wrong reason would be recorded.
    agent.awaitState(
        state -> state.hasFailed() || state.isEnded() || orElse.test(state),
        System.nanoTime() + nanos);
  }

  private boolean missFailed(GroupState seen) {
    NativeCommunicator comm = seen.communicator();
    return comm != null && seen.closedRanks().missFailed(comm, rank);
  }

  /**
   * Whether the call was ended by poison from another member or thread, and not by an error of its
   * own.
   */
  private boolean isEndedFromOutside() {
    NativeCommunicator comm = agent.state().communicator();
    return comm != null && comm.failure() != null;
  }

  // Failures of enqueued work.

  /** {@link #throwIfAny}, including failures of enqueued work. */
  void throwIfFailed(NativeCommunicator comm) {
    GroupState seen = agent.state();
    throwIfAny(seen);
    if (seen.isCutShort()) {
      throw closed();
    }
    CollectiveException e = seen.isAsync() ? comm.failure() : null;
    if (e != null) {
      throw callFailed(e, true);
    }
  }

  /**
   * Whether {@link #throwIfFailed} would block: until the reason of the failure is known, or the
   * flight record that it names is written.
   */
  boolean awaitsReason(NativeCommunicator comm) {
    return awaitsExplanation(comm) || flight.awaitsMention();
  }

  private boolean awaitsExplanation(NativeCommunicator comm) {
    GroupState seen = agent.state();
    CollectiveException e = seen.isAsync() && seen.canFail() ? comm.failure() : null;
    if (e == null) {
      return false;
    }
    if (explainsItself(e)) {
      noteAndReport(e);
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
      note(links.lossBy(broken));
    } else {
      noteOwn(e);
    }
    return false;
  }

  /** The exception that {@link #throwIfFailed} would throw; null if it would block. */
  @Nullable RuntimeException failure(NativeCommunicator comm) {
    GroupState seen = agent.state();
    // First, because the flight record is started before the failure is seen, unless the channel's
    // thread breaks down: without a failure nothing is known of the record, which known() would
    // then
    // leave out for ever.
    if (seen.hasFailed()) {
      // Perhaps since its calls were checked, and not because of them.
      return flight.awaitsMention() ? null : known();
    }
    boolean isAfterEnd = seen.isAsync() && seen.isEnded() && comm.failure() != null;
    return seen.isCutShort() || isAfterEnd ? closed() : null;
  }

  /**
   * Records a failure of enqueued work even if no thread waits for its stream. An aborting member
   * reports the reason through the hub; a member whose call timed out or differed may be in no call
   * that could report it.
   */
  void lookAtDevice() {
    GroupState seen = agent.state();
    NativeCommunicator comm = seen.communicator();
    if (!seen.isAsync() || comm == null || seen.hasFailed()) {
      return;
    }
    CollectiveException e = comm.failure();
    if (e != null && explainsItself(e)) {
      noteAndReport(e);
    }
  }

  // The end of the group, and its files.

  /**
   * Tells the listeners that there can be no failure any more. Called under the agent's monitor;
   * may be called again if it throws.
   */
  void noMoreFailures() {
    listeners.noMoreFailures();
  }

  /** From now on the end of the group is intended by the driver and needs no flight record. */
  void expectEnd() {
    flight.disable();
  }

  /** A clause for those who are not on this host, with the flight record that a failure makes. */
  String recordPlace(Hosts hosts) {
    return flight.place(hosts);
  }

  /** {@link io.nvrar.CollectiveGroup#writeFlightRecord}. */
  void writeRecord(Path file) throws IOException {
    GroupState seen = agent.state();
    flight.writeTo(
        file,
        Objects.requireNonNull(seen.communicator()),
        Objects.requireNonNull(seen.members()),
        seen.failure());
  }

  /** Lets {@code nvrar top} find this member. */
  void announce(byte[] descriptor, Message.Members members) {
    flight.announce(descriptor, members);
    Failure reason = agent.state().failure();
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
}
