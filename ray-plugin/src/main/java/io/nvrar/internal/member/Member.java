package io.nvrar.internal.member;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupHealth;
import io.nvrar.GroupStatistics;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.call.CommonCalls;
import io.nvrar.internal.call.RunningCalls;
import io.nvrar.internal.channel.ControlChannel;
import io.nvrar.internal.channel.Heartbeats;
import io.nvrar.internal.channel.RankZeroView;
import io.nvrar.internal.device.async.AsyncStream;
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
 * One member, from the join to the end. It dispatches the messages of the control channel, and
 * implements the operations of {@link MemberGroup}.
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
  private final Monitor monitor = new Monitor();

  private final FirstFailure failure;
  private final String localHost;
  private final @Nullable Children siblings;
  private final Children children;
  private final Splitting splitting;
  private final CommonCalls calls;
  private final RunningCalls running;
  private final CallErrors errors;
  private final MemberLife life = new MemberLife(monitor);
  private final MemberDriver driver = new MemberDriver();
  private final MemberClose close;

  /** Made beforehand, for a channel's thread that has no memory to make it. */
  private final Failure outOfMemory;

  /** Why the channel's thread ends, if an error ends it. Used by that thread only. */
  private @Nullable Failure end;

  /** Guarded by the monitor. */
  private Message.@Nullable Members members;

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
    children = new Children(spec);
    splitting = new Splitting(spec, keys, rank, this);
    failure = new FirstFailure(spec, rank, monitor, channel, this::failed);
    calls = new CommonCalls(rank, spec.worldSize());
    running = new RunningCalls(rank);
    errors =
        new CallErrors(spec, rank, monitor, life, driver, failure, running, calls, this::members);
    close = new MemberClose(spec, rank, monitor, channel, life, driver, failure, running);
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
    failure.own(prepared);
    boolean late =
        monitor.locked(
            () -> {
              running.own(prepared, async);
              return life.isEnded();
            });
    if (late) {
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
    monitor.await(() -> answer.get() != null || hasFailed() || life.isClosing(), deadlineNanos);
    return monitor.locked(answer);
  }

  /** Waits until the group fails or closes; an interrupt does not shorten it. */
  void awaitEnd(long deadlineNanos) {
    monitor.awaitUninterruptibly(() -> hasFailed() || life.isClosing(), deadlineNanos);
  }

  /** Runs {@code work} under the lock that guards the state received by the channel's thread. */
  <T extends @Nullable Object> T locked(Supplier<T> work) {
    return monitor.locked(work);
  }

  // Called by the channel's thread.

  @Override
  public void received(Message message) {
    if (message instanceof Failure told) {
      Failure reason = ofSelf(told);
      fail(reason, false);
      if (reason.kind() == Failure.Kind.DRIVER) {
        driver.ended();
        children.end(reason);
      }
    } else if (message instanceof Message.Members all) {
      monitor.update(() -> members = all);
    } else if (message instanceof Message.Ready) {
      monitor.update(
          () -> {
            life.allAreConnected();
            failure.formed(Objects.requireNonNull(members));
          });
    } else if (message instanceof Message.Closing peer) {
      if (peer.destroyed()) {
        driver.destroysAnother();
        failure.expectEnd();
      }
      monitor.update(() -> calls.closed(peer.rank(), peer.sequence()));
    } else if (message instanceof Message.AllClosed) {
      close.allHaveClosed();
    } else if (message instanceof Message.Destroy) {
      destroy();
    } else {
      monitor.update(() -> splitting.received(message));
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
    boolean orderly = calls.hasClosed(0);
    boolean hadFailed = hasFailed();
    close.hubIsGone(orderly);
    // Rank 0 also leaves after a failure. Groups split from this one survive that, unless they have
    // a driver, which can then no longer be reached.
    if (orderly || (hadFailed && (life.isClosing() || !driver.isDriven()))) {
      children.unheard();
      return;
    }
    ProcessIdentity hub = ProcessIdentity.ofRankZero(spec, members());
    Failure reason =
        ofSelf(
            Failure.lost(
                0,
                hub,
                String.format(
                    Locale.ROOT,
                    "rank 0 (%s) was lost%s: %s",
                    hub,
                    life.isReady() ? "" : " while " + spec.label() + " was being created",
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
    boolean isFirst = failure.breaks(reason, e);
    if (isFirst) {
      channel.sendLast();
      failure.finishBreak();
    }
    // Nobody can reach this process's members of groups split from this one through it any more; as
    // in lost().
    if (driver.isDriven() && (isFirst || !life.isClosing())) {
      children.end(reason);
    } else {
      children.parentFailed(Objects.requireNonNullElse(failure.get(), reason));
      children.unheard();
    }
  }

  /** All members; null until they are known. */
  Message.@Nullable Members members() {
    return monitor.locked(() -> members);
  }

  /** Whether every member is connected. */
  boolean isReady() {
    return monitor.locked(life::isReady);
  }

  @Override
  public long tick() {
    Failure reason = failure.get();
    if (reason != null) {
      children.parentFailed(reason);
    }
    if (driver.isDriven() && !life.isClosing() && reason != null && isForsaken()) {
      close.beginByItself();
    }
    NativeCommunicator comm = running.communicator();
    boolean mustSayClosing = close.mustStillSay(comm);
    if (comm == null || hasFailed()) {
      return mustSayClosing ? CALL_END_POLL_NANOS : FOREVER;
    }
    if (isReady() && areOnSeveralHosts()) {
      errors.lookAtLinks(comm.failure());
    }
    boolean looksForFailures = running.isAsync() && isReady();
    if (looksForFailures) {
      errors.noteFailureOnDevice(comm);
    }
    if (calls.isAll()) {
      return mustSayClosing ? CALL_END_POLL_NANOS : looksForFailures ? DEVICE_POLL_NANOS : FOREVER;
    }
    CommonCalls.Obstacle obstacle = calls.obstacle(comm, System.nanoTime());
    if (obstacle != null) {
      // Reported, because this also ends the transfers of the other members, which would not know
      // the reason.
      fail(errors.closedBy(obstacle), true);
    }
    return mustSayClosing ? CALL_END_POLL_NANOS : CLOSED_PEER_POLL_NANOS;
  }

  private boolean areOnSeveralHosts() {
    Message.Members all = members();
    if (all != null && severalHosts == null) {
      severalHosts = Hosts.of(all).areSeveral();
    }
    return Boolean.TRUE.equals(severalHosts);
  }

  /** Whether nobody is left who could tell this member to close. */
  private boolean isForsaken() {
    return driver.hasEnded() || close.isHubGone();
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

  /**
   * Begins a call: this member does not close in order before {@link #leaveCall}. If no further one
   * can be made, it throws and nothing has begun.
   *
   * @param comm of a collective; null for a transfer, which a closed third rank does not affect
   */
  void enterCall(@Nullable NativeCommunicator comm) {
    checkCall(comm);
    // A close sets its flag before it counts the callers, and this counts before it reads the flag
    // again. So either this call is refused, or the number that the others are told includes it.
    running.begin();
    if (life.isClosing()) {
      running.end();
      checkCall(comm);
      throw closed();
    }
  }

  private void checkCall(@Nullable NativeCommunicator comm) {
    if (comm == null) {
      errors.checkTransferable();
    } else {
      errors.checkCallable(comm);
    }
  }

  /** Begins the launch of a graph, as a transfer. */
  void enterReplay(AsyncStream on) {
    enterCall(null);
    running.replay(on);
  }

  void leaveCall() {
    running.end();
  }

  /** The source of the exceptions of its calls. */
  CallErrors errors() {
    return errors;
  }

  /** {@link CallErrors#closed}. */
  IllegalStateException closed() {
    return errors.closed();
  }

  void throwIfFailed() {
    failure.throwIfAny();
  }

  private boolean hasFailed() {
    return failure.get() != null;
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
    running.begin();
    try {
      failure.abort(Failure.abortedHere(rank, "aborted " + spec.label() + ": " + reason), cause);
    } finally {
      running.end();
    }
  }

  /**
   * From now on this member frees itself when its group has failed and its driver will not close
   * it.
   */
  void setDriven() {
    driver.drives();
    children.setDriven();
  }

  /** Fails this group on all members, together with the group that it was split from. */
  void endWithParent(Failure reason) {
    driver.ended();
    fail(reason, true);
    children.end(reason);
  }

  /** From now on the driver can no longer reach this member. */
  void unheard() {
    driver.ended();
    children.unheard();
    channel.wake();
  }

  /** Closes this group and the groups split from it in order, at the driver's request. */
  void destroy() {
    driver.destroys();
    failure.expectEnd();
    close.begin();
    children.destroy();
  }

  boolean isClosing() {
    return life.isClosing();
  }

  /** Whether its user or the driver has closed it. */
  boolean isClosed() {
    return life.isClosed();
  }

  /** Whether the driver has destroyed the group. */
  boolean isDestroyed() {
    return driver.isDestroyed();
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

  /** {@link io.nvrar.CollectiveGroup#newGroup}. */
  @Nullable CollectiveGroup newGroup(int[] ranks, int deviceOrdinal) {
    NativeCommunicator comm = Objects.requireNonNull(running.communicator());
    splitting.checkRanks(ranks);
    enterCall(comm);
    try {
      return splitting.newGroup(ranks.clone(), comm.lastCollective(), deviceOrdinal);
    } finally {
      leaveCall();
    }
  }

  /** {@link io.nvrar.CollectiveGroup#split}. */
  @Nullable CollectiveGroup split(int color, int key, int deviceOrdinal) {
    NativeCommunicator comm = Objects.requireNonNull(running.communicator());
    enterCall(comm);
    try {
      return splitting.split(color, key, comm.lastCollective(), deviceOrdinal);
    } finally {
      leaveCall();
    }
  }

  /** {@link io.nvrar.CollectiveGroup#failure}. */
  @Nullable CollectiveException failure() {
    errors.lookAtDevice();
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
    errors.lookAtDevice();
    NativeCommunicator comm = Objects.requireNonNull(running.communicator());
    comm.refresh(true);
    Failure reason = failure.get();
    return Health.of(
        comm,
        rank,
        Objects.requireNonNull(members()),
        reason == null ? null : reason.message(),
        calls::hasClosed,
        channel.silentNanos());
  }

  /** {@link io.nvrar.CollectiveGroup#statistics}. */
  GroupStatistics statistics() {
    return Objects.requireNonNull(running.communicator()).statistics();
  }

  /** {@link io.nvrar.CollectiveGroup#writeFlightRecord}. */
  void writeFlightRecord(Path file) throws IOException {
    if (isClosed() || life.isFreed()) { // a failed group ends by itself if its driver has ended
      throw new IllegalStateException(
          String.format(
              Locale.ROOT, "%s has ended; what its ranks did is no longer known", spec.label()));
    }
    errors.lookAtDevice();
    Objects.requireNonNull(running.communicator()).refresh(true);
    failure.writeRecord(file, Objects.requireNonNull(members()));
  }

  /** Lets {@code nvrar top} find this member, until it is closed. */
  void announce(NativeCommunicator comm) {
    failure.announce(comm.descriptor(), Objects.requireNonNull(members()));
    if (life.isFreed() && (life.isClosed() || !hasFailed())) {
      failure.withdraw(); // the driver was faster
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
