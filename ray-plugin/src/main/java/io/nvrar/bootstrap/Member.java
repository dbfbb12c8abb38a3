package io.nvrar.bootstrap;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.internal.CallRecord;
import io.nvrar.internal.NativeCommunicator;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * One member's state, from the join to the end: what the control channel's thread learns and what
 * the callers of {@link MemberGroup} need. The channel's thread frees the native member when it
 * ends, whatever made it end.
 */
final class Member implements ControlChannel.Listener {
  private static final long FOREVER = Long.MAX_VALUE;

  /** How long a forced end may take: the native member's own limit and a little more. */
  private static final long FORCED_END_NANOS = TimeUnit.SECONDS.toNanos(12);

  /** How often a member that is to close looks whether its running call has ended. */
  private static final long CALL_END_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

  /** How often a member that waits for one that has left looks whether the others are done. */
  private static final long CLOSED_PEER_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  private final Ticket ticket;
  private final int rank;
  private final ControlChannel channel;
  private final Object lock = new Object();

  private volatile @Nullable NativeCommunicator communicator;

  /** Written once, under the lock. */
  private volatile @Nullable Failure failure;

  /**
   * The lowest number of a last call of a rank that has closed; written by the channel's thread.
   */
  private volatile long lastCommonCall = FOREVER;

  private volatile int closedRank = -1;
  private volatile boolean hubClosed;

  // Guarded by the lock; closing and destroyed are also read without it.
  private Message.@Nullable Members members;
  private boolean ready;
  private boolean hubGone;
  private boolean ended;
  private boolean freed;
  private volatile boolean closing;
  private volatile boolean destroyed;

  /** The threads between {@link #enterCall} and {@link #leaveCall}. */
  private final AtomicInteger callers = new AtomicInteger();

  /** Whether the others know this member's last call; of the channel's thread alone. */
  private boolean saidClosing;

  Member(Ticket ticket, int rank, ControlChannel channel) {
    this.ticket = ticket;
    this.rank = rank;
    this.channel = channel;
  }

  void start() {
    channel.start("nvrar-" + ticket.name() + "-" + rank, this);
  }

  void send(Message message) {
    channel.send(message);
  }

  /** From here on the end of the channel's thread frees {@code prepared}. */
  void own(NativeCommunicator prepared) {
    boolean late;
    synchronized (lock) {
      communicator = prepared;
      late = ended;
    }
    if (late) {
      prepared.close();
    }
  }

  /** Waits for the descriptors of all members. */
  Message.Members awaitMembers(long deadlineNanos) {
    awaitJoin(() -> members != null, deadlineNanos);
    synchronized (lock) {
      Message.Members all = members;
      if (all == null) {
        throw new IllegalStateException("woken without members");
      }
      return all;
    }
  }

  /** Waits until every member is connected. */
  void awaitReady(long deadlineNanos) {
    awaitJoin(() -> ready, deadlineNanos);
  }

  private void awaitJoin(BooleanSupplier condition, long deadlineNanos) {
    try {
      await(() -> condition.getAsBoolean() || failure != null || ended, deadlineNanos);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CollectiveException(
          "rank " + rank + " was interrupted while it joined " + ticket.label(), e);
    }
    throwIfFailed();
    synchronized (lock) {
      if (!condition.getAsBoolean()) {
        throw new CollectiveTimeoutException(
            "rank %d heard nothing from the rendezvous of %s at %s:%d within %s"
                .formatted(
                    rank,
                    ticket.label(),
                    ticket.host(),
                    ticket.port(),
                    Phrases.seconds(ticket.config().joinTimeout())),
            0);
      }
    }
  }

  /** Waits on the lock; the condition is looked at under it. */
  private boolean await(BooleanSupplier condition, long deadlineNanos) throws InterruptedException {
    synchronized (lock) {
      while (!condition.getAsBoolean()) {
        long left = deadlineNanos - System.nanoTime();
        if (left <= 0) {
          return false;
        }
        TimeUnit.NANOSECONDS.timedWait(lock, left);
      }
      return true;
    }
  }

  // What the channel's thread learns.

  @Override
  public void received(Message message) {
    if (message instanceof Failure reason) {
      fail(reason, false);
    } else if (message instanceof Message.Members all) {
      synchronized (lock) {
        members = all;
        lock.notifyAll();
      }
    } else if (message instanceof Message.Ready) {
      synchronized (lock) {
        ready = true;
        lock.notifyAll();
      }
    } else if (message instanceof Message.Closing peer) {
      if (peer.rank() == 0) {
        hubClosed = true;
      }
      synchronized (lock) {
        if (peer.sequence() < lastCommonCall) {
          closedRank = peer.rank();
          lastCommonCall = peer.sequence();
          lock.notifyAll();
        }
      }
    } else if (message instanceof Message.AllClosed) {
      channel.leave();
    } else if (message instanceof Message.Destroy) {
      destroyed = true;
      beginClose();
    }
  }

  @Override
  public void lost(String why) {
    boolean orderly;
    synchronized (lock) {
      hubGone = true;
      orderly = hubClosed || failure != null;
      if (orderly && (failure != null ? closing : saidClosing)) {
        channel.leave();
      }
    }
    if (!orderly) {
      ProcessIdentity hub = ProcessIdentity.ofRankZero(ticket, members());
      fail(
          Failure.lost(
              0,
              hub,
              "rank 0 (%s) was lost%s: %s"
                  .formatted(
                      hub, ready ? "" : " while " + ticket.label() + " was being created", why)),
          true);
    }
  }

  private Message.@Nullable Members members() {
    synchronized (lock) {
      return members;
    }
  }

  @Override
  public long tick() {
    NativeCommunicator comm = communicator;
    boolean mustSayClosing = closing && !saidClosing;
    if (mustSayClosing && callers.get() == 0) {
      saidClosing = true;
      mustSayClosing = false;
      sayClosing(comm);
    }
    long last = lastCommonCall;
    if (last == FOREVER || comm == null || failure != null) {
      return mustSayClosing ? CALL_END_POLL_NANOS : FOREVER;
    }
    CallRecord own = comm.call(rank);
    // An abort would reach members that still run a call all have made: let those finish first.
    if (own.state() == CallRecord.State.RUNNING
        && own.groupSequence() > last
        && allPast(comm, last)) {
      fail(peerClosed(), false);
    }
    return mustSayClosing ? CALL_END_POLL_NANOS : CLOSED_PEER_POLL_NANOS;
  }

  /** No call runs here, and none can begin: the number of the last one is final. */
  private void sayClosing(@Nullable NativeCommunicator comm) {
    if (comm != null) {
      channel.send(new Message.Closing(rank, comm.call(rank).groupSequence()));
    }
    synchronized (lock) {
      if (failure != null || hubGone) {
        channel.leave();
      }
    }
  }

  private boolean allPast(NativeCommunicator comm, long last) {
    for (int r = 0; r < ticket.worldSize(); r++) {
      CallRecord call = comm.call(r);
      if (call.groupSequence() < last
          || (call.groupSequence() == last && call.state() == CallRecord.State.RUNNING)) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void ended() {
    NativeCommunicator comm;
    synchronized (lock) {
      ended = true;
      closing = true;
      comm = communicator;
    }
    if (comm != null) {
      comm.close();
    }
    synchronized (lock) {
      freed = true;
      lock.notifyAll();
    }
  }

  // What callers do.

  /**
   * Begins a call: until {@link #leaveCall} this member does not close in order. Throws, and has
   * not begun, if no further call can be made.
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

  void leaveCall() {
    callers.decrementAndGet();
  }

  /** Throws if no further transfer can be made. */
  void checkTransferable() {
    throwIfFailed();
    if (closing) {
      throw closed();
    }
  }

  /** Throws if no further collective can be made. */
  void checkCallable(NativeCommunicator comm) {
    checkTransferable();
    long last = lastCommonCall;
    if (last != FOREVER && comm.call(rank).groupSequence() >= last) {
      // Recorded here only: the others may still be in calls that all have made, and each of them
      // comes to the same end by itself.
      record(peerClosed());
      throwIfFailed();
    }
  }

  /** Whether the call that has failed here is one that a closed member does not take part in. */
  private boolean isPastCommonCalls() {
    NativeCommunicator comm = communicator;
    long last = lastCommonCall;
    if (last == FOREVER || comm == null) {
      return false;
    }
    CallRecord own = comm.call(rank);
    // The library refuses a call at its entry, without a number, when a peer has ended the group.
    boolean refused = own.state() == CallRecord.State.DONE || own.state() == CallRecord.State.NONE;
    return own.groupSequence() + (refused ? 1 : 0) > last;
  }

  private Failure peerClosed() {
    return Failure.of(
        Failure.Kind.ABORTED,
        destroyed
            ? ticket.label() + " was destroyed by the driver"
            : "rank %d closed the group after its call #%d".formatted(closedRank, lastCommonCall));
  }

  private IllegalStateException closed() {
    return new IllegalStateException(
        destroyed
            ? "%s was destroyed by the driver; rank %d can make no more calls"
                .formatted(ticket.label(), rank)
            : "%s is closed; rank %d can make no more calls".formatted(ticket.label(), rank));
  }

  /** What to throw for what the native library has thrown. */
  RuntimeException callFailed(CollectiveException e) {
    if (e instanceof CollectiveTimeoutException || e instanceof GroupMismatchException) {
      // The library's sentence names every rank's call: nothing to add.
      recordAndReport(e);
    } else if (failure == null && !isEndedFromOutside()) {
      recordAndReport(e);
    } else if (failure == null) {
      // Whoever ended the group tells the hub why, which may take it as long as a silence.
      try {
        await(
            () -> failure != null || ended || isPastCommonCalls(),
            System.nanoTime() + ticket.config().heartbeatLimit().toNanos());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
      synchronized (lock) {
        if (failure == null && ended) {
          return closed();
        }
      }
      if (isPastCommonCalls()) {
        record(peerClosed());
      }
      recordAsIs(Failure.like(e, String.valueOf(e.getMessage())));
    }
    Failure reason = failure;
    return reason == null ? e : reason.toException();
  }

  /** Whether a poison has ended the call, and not something that went wrong in it. */
  private boolean isEndedFromOutside() {
    NativeCommunicator comm = communicator;
    return comm != null && comm.failure() != null;
  }

  private void recordAndReport(CollectiveException e) {
    String sentence = String.valueOf(e.getMessage());
    Failure own = Failure.like(e, sentence);
    recordAsIs(
        own,
        own.forOthers("rank %d (%s): %s".formatted(rank, ProcessIdentity.current(), sentence)));
  }

  void throwIfFailed() {
    Failure reason = failure;
    if (reason != null) {
      throw reason.toException();
    }
  }

  /** Fails the group on this member and, if {@code report}, on all. */
  void fail(Failure reason, boolean report) {
    NativeCommunicator comm = communicator;
    if (comm != null) {
      comm.abort(); // first: what follows allocates, and so may wait for the garbage collector
    }
    record(reason, report ? reason : null);
  }

  private void record(Failure reason) {
    record(reason, null);
  }

  /** Notes the failure with what this member was doing. */
  private void record(Failure reason, @Nullable Failure toOthers) {
    recordAsIs(reason.withMessage(reason.message() + whereabouts()), toOthers);
  }

  private void recordAsIs(Failure reason) {
    recordAsIs(reason, null);
  }

  /** Notes the first failure and tells it to the others, unless {@code toOthers} is null. */
  private void recordAsIs(Failure reason, @Nullable Failure toOthers) {
    synchronized (lock) {
      if (failure != null || ended) {
        return;
      }
      failure = reason;
      if (toOthers != null) {
        // Before anyone here learns of the failure and leaves: nothing is sent after the goodbye.
        channel.send(toOthers);
      }
      if (closing) {
        leaveFailed();
      }
      lock.notifyAll();
    }
  }

  /**
   * Leaves a group that has failed here. It may have failed here alone, beyond the last call of one
   * that closed: so that the others need not wait for this member to close, and that rank 0 is not
   * taken for lost, it says that it does.
   */
  private void leaveFailed() {
    NativeCommunicator comm = communicator;
    if (comm != null && ready) {
      channel.send(new Message.Closing(rank, comm.call(rank).sequence()));
    }
    channel.leave();
  }

  private String whereabouts() {
    NativeCommunicator comm = communicator;
    if (comm == null || !ready) {
      return "";
    }
    CallRecord own = comm.call(rank);
    String doing =
        switch (own.state()) {
          case NONE -> "had made no call yet";
          case RUNNING, FAILED -> "was in " + own.description();
          case DONE -> "was in no call, its last was " + own.description();
        };
    return "; this member (rank " + rank + ") " + doing;
  }

  boolean isClosing() {
    return closing;
  }

  /**
   * Makes no more calls, and has the channel's thread tell so when a running one has ended; returns
   * at once.
   */
  void beginClose() {
    synchronized (lock) {
      if (closing) {
        return;
      }
      closing = true;
      if (failure != null) {
        leaveFailed();
      }
    }
    channel.wake();
  }

  /** Leaves, whatever the others do; returns at once. */
  void leave() {
    channel.leave();
  }

  /** Waits until all is freed: in order for so long, then by leaving. */
  void awaitFreed(long orderlyNanos) {
    boolean interrupted = false;
    try {
      if (await(() -> freed, System.nanoTime() + orderlyNanos)) {
        return;
      }
    } catch (InterruptedException e) {
      interrupted = true; // whoever interrupts wants no patience; freeing goes on
    }
    if (callers.get() > 0 && failure == null) {
      // The call is about to be aborted, and with it its peers', who wait to hear why.
      channel.send(
          Failure.of(
              Failure.Kind.ABORTED,
              "rank %d (%s) closed %s while its last call ran"
                  .formatted(rank, ProcessIdentity.current(), ticket.label())));
    }
    channel.leave();
    long deadline = System.nanoTime() + FORCED_END_NANOS;
    while (true) {
      try {
        await(() -> freed, deadline);
        break;
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
