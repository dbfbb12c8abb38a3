package io.nvrar.bootstrap;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupHealth;
import io.nvrar.GroupMismatchException;
import io.nvrar.device.async.AsyncStream;
import io.nvrar.internal.NativeCommunicator;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One member's state, from the join to the end: what the control channel's thread learns and what
 * the callers of {@link MemberGroup} need. The channel's thread frees the native member when it
 * ends, whatever made it end.
 */
final class Member implements ControlChannel.Listener {
  private static final Logger LOG = LoggerFactory.getLogger(Member.class);
  private static final long FOREVER = Long.MAX_VALUE;

  /** How long a forced end may take: the native member's own limit and a little more. */
  private static final long FORCED_END_NANOS = TimeUnit.SECONDS.toNanos(12);

  /** How long one that ends in order lets a device execute what was enqueued. */
  private static final long ENQUEUED_NANOS = TimeUnit.SECONDS.toNanos(8);

  /** How often a member that is to close looks whether its running call has ended. */
  private static final long CALL_END_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  /** How often a member that waits for one that has left looks whether the others are done. */
  private static final long CLOSED_PEER_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /** How often a member whose calls fail after they have returned looks whether one has. */
  private static final long DEVICE_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  private final Ticket ticket;
  private final int rank;
  private final ControlChannel channel;
  private final Monitor monitor = new Monitor();

  private volatile @Nullable NativeCommunicator communicator;

  private final FirstFailure failure;
  private final String localHost;
  private final @Nullable Children siblings;
  private final Children children;
  private final Splitting splitting;
  private final CommonCalls calls;

  private final MemberLife life = new MemberLife(monitor);
  private final MemberDriver driver = new MemberDriver();

  // Guarded by the lock. What the hub says, or that it is gone, comes in any phase, and counts to
  // the end.
  private Message.@Nullable Members members;
  private boolean hubGone;
  private boolean allClosed;
  private @Nullable AsyncStream ownStream;

  /** Whether calls fail after they have returned, so that somebody must look. */
  private volatile boolean isAsync;

  /** Since when it is known that calls have failed, and not why; 0 where it is not so. */
  private volatile long unexplainedNanos;

  private final Replays replays = new Replays();

  /** The threads between {@link #enterCall} and {@link #leaveCall}. */
  private final AtomicInteger callers = new AtomicInteger();

  /**
   * Whether the others know this member's last call; of the channel's thread alone. No phase: all
   * can still turn out to be connected after that.
   */
  private boolean saidClosing;

  /**
   * @param localHost the address of this machine by which others may reach it
   * @param siblings among whom the parent keeps this member; null for a group split from none
   */
  Member(
      Ticket ticket,
      int rank,
      ControlChannel channel,
      String localHost,
      @Nullable Children siblings) {
    this.ticket = ticket;
    this.rank = rank;
    this.channel = channel;
    this.localHost = localHost;
    this.siblings = siblings;
    children = new Children(ticket);
    splitting = new Splitting(ticket, rank, this);
    failure = new FirstFailure(ticket, rank, monitor, channel, this::leaveIfClosing);
    calls = new CommonCalls(rank, ticket.worldSize());
  }

  void start() {
    channel.start("nvrar-" + ticket.name() + "-" + rank, this);
  }

  void send(Message message) {
    channel.send(message);
  }

  /**
   * From here on the end of the channel's thread frees {@code prepared}.
   *
   * @param async whether its calls fail after they have returned
   */
  void own(NativeCommunicator prepared, boolean async) {
    isAsync = async;
    failure.own(prepared);
    boolean late =
        monitor.locked(
            () -> {
              communicator = prepared;
              return life.isEnded();
            });
    if (late) {
      prepared.close();
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

  /**
   * Waits for what the hub or another member has to say.
   *
   * @param answer looked at under the lock
   * @return null if the group has failed or closes, or the time is over before
   */
  <T> @Nullable T await(Supplier<? extends @Nullable T> answer, long deadlineNanos)
      throws InterruptedException {
    monitor.await(() -> answer.get() != null || hasFailed() || life.isClosing(), deadlineNanos);
    return monitor.locked(answer);
  }

  /** Under the lock of what the channel's thread learns. */
  <T extends @Nullable Object> T locked(Supplier<T> work) {
    return monitor.locked(work);
  }

  // What the channel's thread learns.

  @Override
  public void received(Message message) {
    if (message instanceof Failure reason) {
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
      monitor.update(() -> allClosed = true);
      channel.leave();
    } else if (message instanceof Message.Destroy) {
      destroy();
    } else {
      monitor.update(() -> splitting.received(message));
    }
  }

  @Override
  public void lost(String why) {
    boolean orderly = calls.hasClosed(0);
    boolean hadFailed = hasFailed();
    boolean mayLeave =
        monitor.locked(
            () -> {
              hubGone = true;
              return hasFailed() ? life.isClosing() : orderly && saidClosing;
            });
    if (mayLeave) {
      channel.leave();
    }
    // Rank 0 goes with a failed group, too, and the groups that were split from it do not: unless
    // they have a driver, which cannot be heard any more.
    if (orderly || (hadFailed && (life.isClosing() || !driver.isDriven()))) {
      children.unheard();
      return;
    }
    ProcessIdentity hub = ProcessIdentity.ofRankZero(ticket, members());
    Failure reason =
        Failure.lost(
            0,
            hub,
            "rank 0 (%s) was lost%s: %s"
                .formatted(
                    hub,
                    life.isReady() ? "" : " while " + ticket.label() + " was being created",
                    why));
    if (!hadFailed) {
      fail(reason, true);
    }
    children.end(reason);
  }

  /** All members, once they are known. */
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
      endCalls(true);
    }
    NativeCommunicator comm = communicator;
    boolean mustSayClosing = life.isClosing() && !saidClosing;
    // Before there is a communicator there is nothing to say, but there may be one in a moment.
    if (mustSayClosing && comm != null && callers.get() == 0) {
      saidClosing = true;
      mustSayClosing = false;
      sayClosing(comm);
    }
    if (comm == null || hasFailed()) {
      return mustSayClosing ? CALL_END_POLL_NANOS : FOREVER;
    }
    boolean looksForFailures = isAsync && isReady();
    if (looksForFailures) {
      noteFailureOnDevice(comm);
    }
    if (calls.isAll()) {
      return mustSayClosing ? CALL_END_POLL_NANOS : looksForFailures ? DEVICE_POLL_NANOS : FOREVER;
    }
    CommonCalls.Obstacle obstacle = calls.obstacle(comm, System.nanoTime());
    if (obstacle != null) {
      // This ends the transfers of the others, too, and they would not know why.
      fail(closedBy(obstacle), true);
    }
    return mustSayClosing ? CALL_END_POLL_NANOS : CLOSED_PEER_POLL_NANOS;
  }

  /** Whether nobody is left from whom this member could hear that it is to close. */
  private boolean isForsaken() {
    return driver.hasEnded() || monitor.locked(() -> hubGone);
  }

  private void lookAtDevice() {
    NativeCommunicator comm = communicator;
    if (isAsync && comm != null && !hasFailed()) {
      noteFailureOnDevice(comm);
    }
  }

  // Who aborts says why through the hub; who runs out of time, or differs, may be in no call that
  // could.
  private void noteFailureOnDevice(NativeCommunicator comm) {
    CollectiveException e = comm.failure();
    if (e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException) {
      failure.noteAndReport(e);
    }
  }

  /** No call runs here, and none can begin: the number of the last one is final. */
  private void sayClosing(NativeCommunicator comm) {
    sayLastCall(comm);
    if (monitor.locked(() -> hasFailed() || hubGone)) {
      channel.leave();
    }
  }

  @Override
  public void ended() {
    monitor.update(
        () -> {
          life.ended();
          failure.over();
        });
    NativeCommunicator comm = communicator;
    if (siblings != null) {
      siblings.remove(this);
    }
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
    if (!isAsync || !isAllClosed()) {
      return;
    }
    long deadline = System.nanoTime() + ENQUEUED_NANOS;
    while (!hasFailed()
        && !life.isCutShort()
        && comm.failure() == null
        && (CommonCalls.isUnderWay(comm.call(rank)) || !replays.areOver())) {
      if (System.nanoTime() - deadline > 0) {
        life.cutShort();
      }
      LockSupport.parkNanos(CALL_END_POLL_NANOS);
    }
  }

  // What callers do.

  /**
   * Begins a collective: until {@link #leaveCall} this member does not close in order. Throws, and
   * has not begun, if no further one can be made.
   */
  void enterCall(NativeCommunicator comm) {
    // Before the look at closing, which beginClose sets before anyone looks at the callers: either
    // this call is refused or the others hear of a number that includes it.
    callers.incrementAndGet();
    try {
      checkCallable(comm);
    } catch (RuntimeException e) {
      callers.decrementAndGet();
      throw e;
    }
  }

  /** {@link #enterCall} for point-to-point transfers, which concern no closed third. */
  void enterTransfer() {
    callers.incrementAndGet();
    try {
      checkTransferable();
    } catch (RuntimeException e) {
      callers.decrementAndGet();
      throw e;
    }
  }

  /** {@link #enterTransfer} for a graph: of the numbers of what it replays nobody keeps count. */
  void enterReplay(AsyncStream on) {
    enterTransfer();
    replays.on(on);
  }

  void leaveCall() {
    callers.decrementAndGet();
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    if (life.isClosedFirst()) {
      throw closed(); // what others make of that close is news to them, and not to who closed
    }
    throwIfFailed();
    if (life.isClosing()) {
      throw closed();
    }
  }

  /** Throws if no further collective can be made. */
  void checkCallable(NativeCommunicator comm) {
    checkTransferable();
    if (calls.isNextBeyond(comm)) {
      // Recorded here only: the others may still be in calls that all have made, and each of them
      // comes to the same end by itself.
      failure.note(closedBy(calls.obstacle()));
      throwIfFailed();
    }
  }

  private boolean isFailedBeyond() {
    NativeCommunicator comm = communicator;
    return comm != null && calls.isFailedBeyond(comm);
  }

  private Failure closedBy(CommonCalls.Obstacle obstacle) {
    if (driver.isAnyDestroyed()) {
      return Failure.of(Failure.Kind.DRIVER, ticket.label() + " was destroyed by the driver");
    }
    Message.Members all = members();
    return all == null
        ? Failure.of(Failure.Kind.ABORTED, obstacle.sentence())
        : Failure.aborted(
            obstacle.closedRank(),
            all.inRankOrder()[obstacle.closedRank()].process(),
            obstacle.sentence());
  }

  /** For a call on a group that is closed. */
  IllegalStateException closed() {
    return new IllegalStateException(
        driver.isDestroyed()
            ? "%s was destroyed by the driver; rank %d can make no more calls"
                .formatted(ticket.label(), rank)
            : "%s is closed; rank %d can make no more calls".formatted(ticket.label(), rank));
  }

  /**
   * What to throw for what the native library has thrown.
   *
   * @param inCollective of a transfer a rank that has closed may have made its part
   */
  RuntimeException callFailed(CollectiveException e, boolean inCollective) {
    if (e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException) {
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
        fail(closedBy(calls.obstacle()), true); // who is in a transfer cannot tell by itself
      }
      failure.noteOwn(e);
    }
    Failure reason = failure.get();
    return reason == null ? e : failure.exception(reason);
  }

  /** Whether a poison has ended the call, and not something that went wrong in it. */
  private boolean isEndedFromOutside() {
    NativeCommunicator comm = communicator;
    return comm != null && comm.failure() != null;
  }

  private boolean hasFailed() {
    return failure.get() != null;
  }

  private void leaveIfClosing() {
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
    NativeCommunicator comm = communicator;
    if (comm != null && isReady()) {
      sayLastCall(comm);
    }
    channel.leave();
  }

  private void sayLastCall(NativeCommunicator comm) {
    channel.send(new Message.Closing(rank, comm.lastCollective(), driver.isDestroyed()));
  }

  void throwIfFailed() {
    failure.throwIfAny();
  }

  /** {@link #throwIfFailed()}, also for what a call on a device has met. */
  void throwIfFailed(NativeCommunicator comm) {
    throwIfFailed();
    if (life.isCutShort()) {
      throw closed();
    }
    CollectiveException e = isAsync ? comm.failure() : null;
    if (e != null) {
      throw callFailed(e, true);
    }
  }

  /**
   * Whether {@link #throwIfFailed(NativeCommunicator)} would wait: to hear why it has failed, or
   * for the flight record that it names.
   */
  boolean awaitsReason(NativeCommunicator comm) {
    return awaitsExplanation(comm) || failure.awaitsMention();
  }

  private boolean awaitsExplanation(NativeCommunicator comm) {
    CollectiveException e = isAsync && !hasFailed() && !life.isCutShort() ? comm.failure() : null;
    if (e == null || monitor.locked(life::isEnded)) {
      return false;
    }
    if (e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException) {
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

  /** What {@link #throwIfFailed(NativeCommunicator)} would throw; null where it would wait. */
  @Nullable RuntimeException failure(NativeCommunicator comm) {
    if (failure.awaitsMention()) {
      return null; // it has failed since its calls were asked for, and not by them
    }
    CollectiveException known = failure.known();
    if (known != null) {
      return known;
    }
    boolean isAfterEnd = isAsync && monitor.locked(life::isEnded) && comm.failure() != null;
    return life.isCutShort() || isAfterEnd ? closed() : null;
  }

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    failure.fail(reason, report);
  }

  /** Fails the group on all members by their user's wish. */
  void abort(String reason) {
    abort(reason, null);
  }

  /** The same for a reason that this member's own failure keeps as its cause. */
  void abort(Throwable reason) {
    abort(Phrases.clause(reason), reason);
  }

  private void abort(String reason, @Nullable Throwable cause) {
    // As a call, so that a close in another thread does not tell the others of itself first: it
    // would be the reason that they hear for the end of their calls.
    callers.incrementAndGet();
    try {
      failure.abort(aborted("aborted " + ticket.label() + ": " + reason), cause);
    } finally {
      callers.decrementAndGet();
    }
  }

  /** What this member does to the others, after "rank N (process)". */
  Failure aborted(String what) {
    ProcessIdentity self = ProcessIdentity.current();
    return Failure.aborted(rank, self, "rank %d (%s) %s".formatted(rank, self, what));
  }

  /**
   * From here on it frees itself when its group has failed and its driver will not have it close.
   */
  void setDriven() {
    driver.drives();
    children.setDriven();
  }

  /** Fails with the group that this one was split from, and on all members. */
  void endWithParent(Failure reason) {
    driver.ended();
    fail(reason, true);
    children.end(reason);
  }

  /** From here on nobody can say that the driver wants it closed. */
  void unheard() {
    driver.ended();
    children.unheard();
    channel.wake();
  }

  /** Closes in order, and so do the groups split from this one: the driver wants it. */
  void destroy() {
    driver.destroys();
    failure.expectEnd();
    beginClose();
    children.destroy();
  }

  boolean isClosing() {
    return life.isClosing();
  }

  /** Whether its user, or the driver, has it close. */
  boolean isClosed() {
    return life.isClosed();
  }

  /** Whether the driver has all close. */
  boolean isDestroyed() {
    return driver.isDestroyed();
  }

  /**
   * Makes no more calls, and has the channel's thread tell so when a running one has ended; returns
   * at once.
   */
  void beginClose() {
    endCalls(false);
  }

  private void endCalls(boolean byItself) {
    if (life.endCalls(byItself, this::hasFailed)) {
      leaveFailed();
    }
    channel.wake();
  }

  /** Whether the group has come to its end in order, on all members. */
  boolean isAllClosed() {
    return monitor.locked(() -> allClosed);
  }

  Children children() {
    return children;
  }

  /** {@link io.nvrar.CollectiveGroup#newGroup}. */
  @Nullable CollectiveGroup newGroup(int[] ranks, int deviceOrdinal) {
    NativeCommunicator comm = Objects.requireNonNull(communicator);
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
    NativeCommunicator comm = Objects.requireNonNull(communicator);
    enterCall(comm);
    try {
      return splitting.split(color, key, comm.lastCollective(), deviceOrdinal);
    } finally {
      leaveCall();
    }
  }

  /** {@link io.nvrar.CollectiveGroup#failure}. */
  @Nullable CollectiveException failure() {
    lookAtDevice();
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
    lookAtDevice();
    Failure reason = failure.get();
    return Health.of(
        Objects.requireNonNull(communicator),
        rank,
        Objects.requireNonNull(members()),
        reason == null ? null : reason.message(),
        calls::hasClosed,
        channel.silentNanos());
  }

  String localHost() {
    return localHost;
  }

  String label() {
    return ticket.label();
  }

  /** Leaves, whatever the others do; returns at once. */
  void leave() {
    channel.leave();
  }

  /** Whether a call runs here; on a device also after it has returned. */
  private boolean isInCall() {
    NativeCommunicator comm = communicator;
    return callers.get() > 0
        || (isAsync && comm != null && CommonCalls.isUnderWay(comm.call(rank)));
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
    if (isInCall() && !hasFailed()) {
      // The call is about to be aborted, and with it its peers', who wait to hear why. For this
      // member it is a close, also when the hub is quick to say it to all.
      life.cutShort();
      monitor.update(failure::over);
      channel.send(aborted("closed " + ticket.label() + " while its last call ran"));
    }
    channel.leave();
    monitor.awaitUninterruptibly(life::isFreed, System.nanoTime() + FORCED_END_NANOS);
  }
}
