package io.nvrar.internal.group;

import io.nvrar.CollectiveException;
import io.nvrar.GroupHealth;
import io.nvrar.GroupStatistics;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.ClosedRanks;
import io.nvrar.internal.call.Obstacles;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Heartbeats;
import io.nvrar.internal.channel.RankZeroView;
import io.nvrar.internal.group.GroupState.Fact;
import io.nvrar.internal.wire.Failure;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.Phrases;
import io.nvrar.internal.wire.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One member, from the join to the end: what the control channel's thread does for it, and the
 * operations of {@link MemberGroup}. {@link GroupAgent} has its state, {@link MemberFailures} makes
 * what it throws, {@link MemberClose} ends it.
 */
public final class Member implements ControlChannel.Listener {
  private static final long FOREVER = Long.MAX_VALUE;

  /** How often a closing member checks whether its running call has ended. */
  private static final long CALL_END_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  /**
   * How often a member that waits for a rank that has left checks whether the other ranks are done.
   */
  private static final long CLOSED_PEER_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /** How often a member with asynchronous calls checks whether one has failed. */
  private static final long DEVICE_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  private final GroupSpec spec;
  private final int rank;
  private final ControlChannel channel;
  private final GroupAgent agent;
  private final MemberFailures failure;
  private final MemberClose close;
  private final String localHost;
  private final @Nullable Children siblings;
  private final Children children;
  private final Splitting splitting;
  private final Obstacles obstacles;

  /** Made beforehand, for a channel's thread that has no memory to make it. */
  private final Failure outOfMemory;

  /** Why the channel's thread ends, if an error ends it. Used by that thread only. */
  private @Nullable Failure end;

  /** Whether the members are on several hosts; null if unknown. Used by the channel's thread. */
  private @Nullable Boolean severalHosts;

  /**
   * @param localHost the address of this machine at which other members can reach it
   * @param siblings the set in which the parent keeps this member; null for a group that is not
   *     split from another
   */
  Member(
      GroupSpec spec,
      GroupKeys keys,
      int rank,
      ControlChannel channel,
      String localHost,
      @Nullable Children siblings) {
    this.spec = spec;
    this.rank = rank;
    this.channel = channel;
    this.localHost = localHost;
    this.siblings = siblings;
    agent = new GroupAgent(rank);
    failure = new MemberFailures(spec, rank, agent, channel, this::failed);
    close = new MemberClose(spec, rank, agent, channel, failure);
    children = new Children(spec);
    splitting = new Splitting(spec, keys, rank, this);
    obstacles = new Obstacles(rank, spec.worldSize());
    outOfMemory = endedBy(OutOfMemoryError.class.getName());
  }

  private Failure endedBy(String error) {
    return Failure.abortedHere(
        rank,
        String.format(
            Locale.ROOT,
            "left %s because its control thread was ended by %s",
            spec.label(),
            error));
  }

  void start() {
    channel.prepareLast(outOfMemory);
    channel.start("nvrar-" + spec.name() + "-" + rank, this);
  }

  void send(Message message) {
    channel.send(message);
  }

  /**
   * From now on the channel's thread frees {@code prepared} when it ends.
   *
   * @param async whether calls may fail after they have returned
   */
  void own(NativeCommunicator prepared, boolean async) {
    if (agent.change(state -> state.withCommunicator(prepared, async)).isEnded()) {
      prepared.close();
    }
  }

  /** What the hub in this process tells observers. All members must be known. */
  RankZeroView view(NativeCommunicator communicator) {
    Hosts hosts = Hosts.of(Objects.requireNonNull(members()));
    return new GroupView(communicator, failure, hosts, spec.worldSize());
  }

  /**
   * Waits for a message of the hub or another member.
   *
   * @param answer evaluated under the lock
   * @return null if the group fails or closes first, or the time is over
   */
  <T> @Nullable T await(Supplier<? extends @Nullable T> answer, long deadlineNanos)
      throws InterruptedException {
    agent.await(() -> answer.get() != null || isFailedOrClosing(agent.state()), deadlineNanos);
    return agent.locked(answer);
  }

  /** Waits until the group fails or closes; an interrupt does not shorten it. */
  void awaitEnd(long deadlineNanos) {
    agent.awaitState(Member::isFailedOrClosing, deadlineNanos);
  }

  /** Runs {@code work} under the lock that guards the state received by the channel's thread. */
  <T extends @Nullable Object> T locked(Supplier<T> work) {
    return agent.locked(work);
  }

  private static boolean isFailedOrClosing(GroupState state) {
    return state.hasFailed() || state.isClosing();
  }

  // Called by the channel's thread.

  @Override
  public void received(Message message) {
    if (message instanceof Failure told) {
      Failure reason = ofSelf(told);
      fail(reason, false);
      if (reason.kind() == Failure.Kind.DRIVER) {
        agent.change(state -> state.with(Fact.DRIVER_ENDED));
        children.end(reason);
      }
    } else if (message instanceof Message.Members all) {
      agent.change(state -> state.withMembers(all));
    } else if (message instanceof Message.Ready) {
      Objects.requireNonNull(members());
      agent.change(state -> state.with(Fact.FORMED));
    } else if (message instanceof Message.Closing peer) {
      if (peer.destroyed()) {
        failure.expectEnd();
        agent.change(state -> state.with(Fact.ANOTHER_DESTROYED));
      }
      agent.change(state -> state.withClosed(peer.rank(), peer.sequence()));
    } else if (message instanceof Message.AllClosed) {
      close.allHaveClosed();
    } else if (message instanceof Message.Destroy) {
      destroy();
    } else {
      agent.update(() -> splitting.received(message));
    }
  }

  /** The failure as this member tells it: of itself it cannot say that it was silent. */
  private Failure ofSelf(Failure reason) {
    return reason.kind() == Failure.Kind.PEER_LOST
            && reason.rank() == rank
            && reason.message().contains(Heartbeats.SILENT)
        ? reason.withMessage(
            String.format(
                Locale.ROOT,
                "this process, rank %d of %s, was taken for lost, as if it was stopped or had no CPU for a while: %s",
                rank,
                spec.label(),
                reason.message()))
        : reason;
  }

  @Override
  public void lost(String why) {
    GroupState before = agent.state();
    boolean orderly = before.closedRanks().has(0);
    boolean hadFailed = before.hasFailed();
    close.hubIsGone(orderly);
    // Rank 0 also leaves after a failure. Groups split from this one survive that, unless they have
    // a driver, which can then no longer be reached.
    if (orderly || (hadFailed && (before.isClosing() || !before.has(Fact.DRIVEN)))) {
      children.unheard();
      return;
    }
    ProcessIdentity hub = ProcessIdentity.ofRankZero(spec, before.members());
    Failure reason =
        ofSelf(
            Failure.lost(
                0,
                hub,
                String.format(
                    Locale.ROOT,
                    "rank 0 (%s) was lost%s: %s",
                    hub,
                    before.has(Fact.FORMED) ? "" : " while " + spec.label() + " was being created",
                    why)));
    if (!hadFailed) {
      fail(reason, true);
    }
    children.end(reason);
  }

  @Override
  @SuppressWarnings("ReferenceEquality") // outOfMemory needs no memory, other failures do
  public void broken(Throwable e) {
    if (close.isAnnounced() && !channel.hasQueued()) {
      return; // the others need this member no more
    }
    Failure reason = end;
    if (reason == null) {
      reason = e instanceof OutOfMemoryError ? outOfMemory : endedBy(e.toString());
      if (reason != outOfMemory) {
        channel.prepareLast(reason);
      }
      end = reason;
    }
    boolean isFirst = agent.breakDown(reason, e);
    if (isFirst) {
      channel.sendLast();
      failure.finishBreakDown();
    }
    // Nobody can reach this process's members of groups split from this one through it any more; as
    // in lost().
    GroupState now = agent.state();
    if (now.has(Fact.DRIVEN) && (isFirst || !now.isClosing())) {
      children.end(reason);
    } else {
      children.parentFailed(Objects.requireNonNullElse(now.failure(), reason));
      children.unheard();
    }
  }

  /** All members; null until they are known. */
  Message.@Nullable Members members() {
    return agent.state().members();
  }

  /** Whether every member is connected. */
  boolean isReady() {
    return agent.state().has(Fact.FORMED);
  }

  @Override
  public long tick() {
    GroupState seen = agent.state();
    Failure reason = seen.failure();
    if (reason != null) {
      children.parentFailed(reason);
    }
    if (reason != null && seen.has(Fact.DRIVEN) && !seen.isClosing() && seen.isForsaken()) {
      close.beginByItself();
    }
    boolean mustSayClosing = close.mustStillSay();
    long idleNanos = mustSayClosing ? CALL_END_POLL_NANOS : FOREVER;
    NativeCommunicator comm = seen.communicator();
    if (comm == null || reason != null) {
      return idleNanos;
    }
    boolean looksForFailures = seen.isAsync() && seen.has(Fact.FORMED);
    if (seen.has(Fact.FORMED) && areOnSeveralHosts(seen)) {
      failure.links().look(comm.failure());
    }
    if (looksForFailures) {
      failure.lookAtDevice();
    }
    ClosedRanks closed = seen.closedRanks();
    if (closed.areNone()) {
      return looksForFailures ? Math.min(idleNanos, DEVICE_POLL_NANOS) : idleNanos;
    }
    ClosedRanks.Obstacle obstacle = obstacles.of(comm, closed, System.nanoTime());
    if (obstacle != null) {
      // Reported, because this also ends the transfers of the other members, which would not know
      // the reason.
      fail(failure.closedBy(obstacle), true);
    }
    return mustSayClosing ? CALL_END_POLL_NANOS : CLOSED_PEER_POLL_NANOS;
  }

  private boolean areOnSeveralHosts(GroupState seen) {
    if (severalHosts == null) {
      severalHosts = Hosts.of(Objects.requireNonNull(seen.members())).areSeveral();
    }
    return severalHosts;
  }

  @Override
  public void ended() {
    close.end();
    if (siblings != null) {
      siblings.remove(this);
    }
    close.free();
  }

  // Called by user threads.

  /** The owner of its state, which counts its calls. */
  GroupAgent agent() {
    return agent;
  }

  /** What its calls throw. */
  MemberFailures failures() {
    return failure;
  }

  /** {@link MemberFailures#closed}. */
  IllegalStateException closed() {
    return failure.closed();
  }

  void throwIfFailed() {
    failure.throwIfAny();
  }

  private void failed() {
    close.failed();
  }

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    failure.fail(reason, report);
  }

  /** Fails the group on all members at the user's request. */
  void abort(String reason) {
    abort(reason, null);
  }

  /** Does that for an exception, which this member's own failure keeps as its cause. */
  void abort(Throwable reason) {
    abort(Phrases.clause(reason), reason);
  }

  private void abort(String reason, @Nullable Throwable cause) {
    // Counted as a call, so that a concurrent close does not announce itself to the others first:
    // they would then get the close as the reason.
    agent.begin();
    try {
      failure.abort(Failure.abortedHere(rank, "aborted " + spec.label() + ": " + reason), cause);
    } finally {
      agent.end();
    }
  }

  /**
   * From now on this member frees itself when its group has failed and its driver will not close
   * it.
   */
  void setDriven() {
    agent.change(state -> state.with(Fact.DRIVEN));
    children.setDriven();
  }

  /** Fails this group on all members, together with the group that it was split from. */
  void endWithParent(Failure reason) {
    agent.change(state -> state.with(Fact.DRIVER_ENDED));
    fail(reason, true);
    children.end(reason);
  }

  /** From now on the driver can no longer reach this member. */
  void unheard() {
    agent.change(state -> state.with(Fact.DRIVER_ENDED));
    children.unheard();
    channel.wake();
  }

  /** Closes this group and the groups split from it in order, at the driver's request. */
  void destroy() {
    agent.change(state -> state.with(Fact.DESTROYED));
    failure.expectEnd();
    close.begin();
    children.destroy();
  }

  boolean isClosing() {
    return agent.state().isClosing();
  }

  /** Whether its user or the driver has closed it. */
  boolean isClosed() {
    return agent.state().isClosed();
  }

  /** Whether the driver has destroyed the group. */
  boolean isDestroyed() {
    return agent.state().has(Fact.DESTROYED);
  }

  /** The close of this member. */
  MemberClose closing() {
    return close;
  }

  /** {@link MemberClose#leave}. */
  void leave() {
    close.leave();
  }

  /** {@link MemberClose#awaitFreed}. */
  void awaitFreed(long orderlyNanos) {
    close.awaitFreed(orderlyNanos);
  }

  Children children() {
    return children;
  }

  /** {@link io.nvrar.CollectiveGroup#newGroup} and {@link io.nvrar.CollectiveGroup#split}. */
  Splitting splitting() {
    return splitting;
  }

  /** {@link io.nvrar.CollectiveGroup#failure}. */
  @Nullable CollectiveException failure() {
    failure.lookAtDevice();
    return failure.known();
  }

  /** {@link io.nvrar.CollectiveGroup#addFailureListener}. */
  void addFailureListener(Consumer<CollectiveException> listener) {
    failure.listeners().add(listener);
  }

  /** {@link io.nvrar.CollectiveGroup#removeFailureListener}. */
  void removeFailureListener(Consumer<CollectiveException> listener) {
    failure.listeners().remove(listener);
  }

  /** {@link io.nvrar.CollectiveGroup#health}. */
  GroupHealth health() {
    failure.lookAtDevice();
    NativeCommunicator comm = communicator();
    comm.refresh(true);
    GroupState seen = agent.state();
    Failure reason = seen.failure();
    return Health.of(
        comm,
        rank,
        Objects.requireNonNull(seen.members()),
        reason == null ? null : reason.message(),
        seen.closedRanks()::has,
        channel.silentNanos());
  }

  private NativeCommunicator communicator() {
    return Objects.requireNonNull(agent.state().communicator());
  }

  /** {@link io.nvrar.CollectiveGroup#statistics}. */
  GroupStatistics statistics() {
    return communicator().statistics();
  }

  /** {@link io.nvrar.CollectiveGroup#writeFlightRecord}. */
  void writeFlightRecord(Path file) throws IOException {
    GroupState seen = agent.state();
    if (seen.isClosed()
        || seen.isFreed()) { // a failed group ends by itself if its driver has ended
      throw new IllegalStateException(
          String.format(
              Locale.ROOT, "%s has ended; what its ranks did is no longer known", spec.label()));
    }
    failure.lookAtDevice();
    communicator().refresh(true);
    failure.writeRecord(file);
  }

  /** Lets {@code nvrar top} find this member, until it is closed. */
  void announce(NativeCommunicator comm) {
    failure.announce(comm.descriptor(), Objects.requireNonNull(members()));
    if (agent.state().isFreed()) {
      close.withdrawUnlessFailed(); // the driver was faster
    }
  }

  /** Ends {@link #announce}. */
  void withdraw() {
    failure.withdraw();
  }

  String localHost() {
    return localHost;
  }

  String label() {
    return spec.label();
  }
}
