package io.nvrar.internal.binding;

import io.nvrar.Collective;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveStatistics;
import io.nvrar.GroupStatistics;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The life cycle of a native member: admits one call at a time, and frees the member when it is
 * closed and no call is inside.
 */
final class NativeMember {
  private static final Logger LOG = LoggerFactory.getLogger(NativeMember.class);

  /** An aborted call leaves within microseconds; this covers a machine that is out of CPUs. */
  private static final long CLOSE_WAIT_NANOS = TimeUnit.SECONDS.toNanos(10);

  // The states that enforce one call at a time. The thread that leaves CLOSING, or changes IDLE to
  // CLOSED, frees the native member, so a running call's memory is never freed.
  private static final int IDLE = 0;
  private static final int RUNNING = 1;
  private static final int CLOSING = 2;
  private static final int CLOSED = 3;

  /** An error of the process, such as a lack of memory, has kept CLOSED from freeing it. */
  private static final int UNFREED = 4;

  private final long comm;
  private final String group;
  private final int rank;
  private final int worldSize;
  private final long beginNanos = System.nanoTime();
  private final AtomicInteger state = new AtomicInteger(IDLE);

  /** Of the call that is inside. */
  private final ArgumentBlock arguments = new ArgumentBlock();

  // Synchronizes the non-collective calls, which may overlap a collective, with nvrar_destroy. Held
  // only for native calls that do not block.
  private final Object lifecycle = new Object();

  /** How many threads are in nvrar_refresh, which blocks; nvrar_destroy waits for them. */
  private int refreshing;

  private boolean released;
  private boolean destroyed;
  private BitSet elsewhere = new BitSet();
  private final CallRecord[] callsAtClose;
  private @Nullable CollectiveException failureAtClose;
  private @Nullable GroupStatistics statisticsAtClose;

  // The exception of the first call that failed: it says more than the library remembers.
  private volatile @Nullable CollectiveException firstFailure;

  NativeMember(long comm, String group, int rank, int worldSize) {
    this.comm = comm;
    this.group = group;
    this.rank = rank;
    this.worldSize = worldSize;
    callsAtClose = new CallRecord[worldSize];
    Arrays.fill(callsAtClose, CallRecord.NONE);
  }

  /** The {@code nvrar_comm}; live between {@link #enter} and {@link #leave}. */
  long comm() {
    return comm;
  }

  /** Where the call that is inside writes its structs. */
  ArgumentBlock arguments() {
    return arguments;
  }

  /** From now on these ranks are known to be on other hosts. */
  void connected(BitSet otherHosts) {
    synchronized (lifecycle) {
      elsewhere = otherHosts;
    }
  }

  /** {@link NativeCommunicator#isElsewhere}. */
  boolean isElsewhere(int ofRank) {
    synchronized (lifecycle) {
      return elsewhere.get(ofRank);
    }
  }

  /** {@link NativeCommunicator#abort}. */
  void abort() {
    int status = NativeStatus.OK;
    synchronized (lifecycle) {
      if (!released) {
        status = NvrarBinding.nvrar_abort(comm);
      }
    }
    if (status != NativeStatus.OK) {
      LOG.warn("{} could not be aborted: status {}", this, status);
    }
  }

  /** {@link NativeCommunicator#refresh}. */
  void refresh(boolean wait) {
    synchronized (lifecycle) {
      if (released) {
        return;
      }
      refreshing++;
    }
    try {
      // Without the lock, because abort must not wait for the answers.
      isReadable(NvrarBinding.nvrar_refresh(comm, wait ? 1 : 0));
    } finally {
      synchronized (lifecycle) {
        refreshing--;
        lifecycle.notifyAll();
      }
    }
  }

  /** {@link NativeCommunicator#call}. */
  CallRecord call(int ofRank) {
    requireRank(ofRank);
    synchronized (lifecycle) {
      return released ? callsAtClose[ofRank] : readCall(ofRank);
    }
  }

  /** {@link NativeCommunicator#link}. */
  @Nullable String link(int ofRank) {
    byte[] link = NativeStructs.empty(NativeStructs.LINK_BYTES);
    return readLink(ofRank, link) ? NativeStructs.link(link) : null;
  }

  /** {@link NativeCommunicator#statistics}. */
  GroupStatistics statistics() {
    synchronized (lifecycle) {
      return released ? Objects.requireNonNull(statisticsAtClose) : readStatistics();
    }
  }

  private GroupStatistics readStatistics() {
    List<CollectiveStatistics> called = new ArrayList<>();
    for (Collective collective : Collective.values()) {
      byte[] struct = NativeStructs.empty(NativeStructs.STATISTICS_BYTES);
      NativeStatus.check(NvrarBinding.nvrar_statistics_of(comm, collective.code(), struct));
      CollectiveStatistics one = NativeStructs.statistics(collective, struct);
      if (one.calls() != 0) {
        called.add(one);
      }
    }
    long[] waits = new long[worldSize];
    long[] waitNanos = new long[worldSize];
    for (int r = 0; r < worldSize; r++) {
      byte[] struct = NativeStructs.empty(NativeStructs.WAIT_BYTES);
      if (isReadable(NvrarBinding.nvrar_wait_of(comm, r, struct))) {
        waits[r] = NativeStructs.waits(struct);
        waitNanos[r] = NativeStructs.waitNanos(struct);
      }
    }
    return new GroupStatistics(
        Duration.ofNanos(System.nanoTime() - beginNanos), called, waits, waitNanos);
  }

  /** {@link NativeCommunicator#asked}. */
  long asked(int ofRank) {
    byte[] link = NativeStructs.empty(NativeStructs.LINK_BYTES);
    return readLink(ofRank, link) ? NativeStructs.asked(link) : 0;
  }

  /** {@link NativeCommunicator#hasAnsweredAfter}. */
  boolean hasAnsweredAfter(int ofRank, long question) {
    byte[] link = NativeStructs.empty(NativeStructs.LINK_BYTES);
    return !readLink(ofRank, link) || NativeStructs.hasAnsweredAfter(link, question);
  }

  private boolean readLink(int ofRank, byte[] link) {
    requireRank(ofRank);
    synchronized (lifecycle) {
      return !released && isReadable(NvrarBinding.nvrar_link_of(comm, ofRank, link));
    }
  }

  /** {@link NativeCommunicator#flightRecord}. */
  List<CallRecord> flightRecord(int ofRank) {
    requireRank(ofRank);
    return newest(ofRank, NvrarBinding.FLIGHT_RECORDS);
  }

  private List<CallRecord> newest(int ofRank, int capacity) {
    byte[] calls = NativeStructs.emptyCalls(capacity);
    byte[] count = new byte[Integer.BYTES];
    synchronized (lifecycle) {
      if (released
          || !isReadable(NvrarBinding.nvrar_flight_record(comm, ofRank, calls, capacity, count))) {
        return List.of();
      }
    }
    return NativeStructs.calls(calls, NativeStructs.count(count));
  }

  /** {@link NativeCommunicator#lastCollective}. */
  long lastCollective() {
    // The newest record, because the call that the rank is in may have others queued behind it.
    List<CallRecord> newest = newest(rank, 1);
    return newest.isEmpty() ? callsAtClose[rank].groupSequence() : newest.get(0).groupSequence();
  }

  /** {@link NativeCommunicator#failure}. */
  @Nullable CollectiveException failure() {
    synchronized (lifecycle) {
      return released ? failureAtClose : readFailure();
    }
  }

  /** {@link NativeCommunicator#close}. */
  void close() {
    boolean again = true;
    while (again) {
      int now = state.get();
      if (now == IDLE || now == UNFREED) {
        if (state.compareAndSet(now, CLOSED)) {
          destroy();
          return;
        }
      } else if (now == RUNNING) {
        state.compareAndSet(RUNNING, CLOSING);
      } else {
        if (now == CLOSING) {
          abort();
        }
        again = awaitDestroyed();
      }
    }
  }

  @Override
  public String toString() {
    return "rank " + rank + " of " + group;
  }

  private void requireRank(int ofRank) {
    if (ofRank < 0 || ofRank >= worldSize) {
      throw new IllegalArgumentException(
          "rank " + ofRank + " is not a rank of a group of " + worldSize);
    }
  }

  /** Begins a call; {@link #leave} must follow if this returns. */
  void enter(String what) {
    if (!state.compareAndSet(IDLE, RUNNING)) {
      throw refused(what);
    }
  }

  /** Ends a call, and frees the member if it was closed meanwhile. */
  void leave() {
    if (!state.compareAndSet(RUNNING, IDLE)) {
      state.set(CLOSED);
      destroy();
    }
  }

  private IllegalStateException refused(String what) {
    return new IllegalStateException(
        state.get() >= CLOSING
            ? what + " was called on " + this + " after it was closed"
            : what
                + " was called on "
                + this
                + " while another call of the same group runs there; one collective of a group runs at a time");
  }

  /**
   * Throws the exception of the call's status, unless it is OK. Must be called before {@link
   * #leave}, while the communicator can still be asked for the missing ranks.
   */
  void checkCall(int status) {
    if (status == NativeStatus.OK) {
      return;
    }
    RuntimeException e = NativeStatus.exception(status, comm);
    if (e instanceof CollectiveException failure && firstFailure == null) {
      firstFailure = failure;
    }
    throw e;
  }

  private CallRecord readCall(int ofRank) {
    byte[] call = NativeStructs.empty(NativeStructs.CALL_BYTES);
    CallRecord last =
        isReadable(NvrarBinding.nvrar_call_of(comm, ofRank, call))
            ? NativeStructs.call(call)
            : CallRecord.NONE;
    return last.state() == CallRecord.State.NONE && elsewhere.get(ofRank)
        ? CallRecord.UNKNOWN
        : last;
  }

  // Before connect no peer is mapped, and no call was made.
  private static boolean isReadable(int status) {
    if (status != NativeStatus.INVALID_USAGE) {
      NativeStatus.check(status);
    }
    return status == NativeStatus.OK;
  }

  private @Nullable CollectiveException readFailure() {
    int status = NvrarBinding.nvrar_async_error(comm);
    if (status == NativeStatus.OK) {
      return null;
    }
    CollectiveException first = firstFailure;
    if (first != null) {
      return first;
    }
    RuntimeException e = NativeStatus.exception(status, comm);
    return e instanceof CollectiveException failure
        ? failure
        : new CollectiveException(String.valueOf(e.getMessage()), e);
  }

  private void destroy() {
    boolean isFreed = false;
    try {
      free();
      isFreed = true;
    } finally {
      if (!isFreed) {
        state.set(UNFREED);
      }
      synchronized (lifecycle) {
        destroyed = isFreed;
        lifecycle.notifyAll();
      }
    }
  }

  private void free() {
    synchronized (lifecycle) {
      if (!released) {
        for (int r = 0; r < worldSize; r++) {
          callsAtClose[r] = readCall(r);
        }
        failureAtClose = readFailure();
        statisticsAtClose = readStatistics();
        released = true;
      }
      awaitRefreshed();
    }
    arguments.free();
    // Outside the lock, because abort must not wait until memory is unmapped.
    new Destruction(toString(), () -> NvrarBinding.nvrar_destroy(comm)).run();
  }

  /** Waits for at most 100 ms; no other thread can come in. */
  private void awaitRefreshed() {
    boolean interrupted = false;
    while (refreshing > 0) {
      try {
        lifecycle.wait();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns whether {@link #close} has to try again. */
  private boolean awaitDestroyed() {
    long deadlineNanos = System.nanoTime() + CLOSE_WAIT_NANOS;
    boolean interrupted = false;
    synchronized (lifecycle) {
      while (!destroyed && state.get() != UNFREED) {
        long leftNanos = deadlineNanos - System.nanoTime();
        if (leftNanos <= 0) {
          LOG.warn(
              "{} is still in a call that was aborted; it is freed when the call leaves", this);
          break;
        }
        try {
          TimeUnit.NANOSECONDS.timedWait(lifecycle, leftNanos);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return state.get() == UNFREED;
  }
}
