package io.nvrar.internal.call;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Determines which calls of a group can still complete after ranks have closed it: collectives up
 * to the last one that all closed ranks have made, and transfers that the peer has made or can
 * still make. {@link #closed} and {@link #obstacle(NativeCommunicator, long)} are for the channel's
 * thread; any thread may call the other methods.
 */
public final class CommonCalls {
  private static final long ALL = Long.MAX_VALUE;

  /**
   * How long a transfer with a closed rank may run before it is checked. Data that the rank has
   * sent is already in this member's memory, and is read sooner than that.
   */
  private static final long TRANSFER_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  /**
   * The same limit if the closed rank's flight record does not show whether it has made its part,
   * because it is too short or on another host. It is longer, because the transfer's thread may get
   * no CPU for a while.
   */
  private static final long UNSURE_TRANSFER_NANOS = TimeUnit.SECONDS.toNanos(2);

  /**
   * How long a collective in which a closed rank takes no part may run while ranks on other hosts
   * do not say what they are doing: long enough for them to finish an earlier one.
   */
  private static final long UNKNOWN_RANKS_NANOS = TimeUnit.SECONDS.toNanos(3);

  private final int rank;
  private final int worldSize;

  /** The number of the last collective that all closed ranks have made. */
  private volatile long last = ALL;

  private volatile int lastRank = -1;

  /** Guarded by itself. */
  private final BitSet closedRanks = new BitSet();

  // The running transfer, and since when it has been seen running. Used by the channel's thread
  // only.
  private @Nullable CallRecord transfer;
  private long transferSinceNanos;
  private long nextLookNanos;

  // The number of the running collective that cannot complete, and since when it has been seen.
  // Used by the channel's thread only.
  private long beyond;
  private long beyondSinceNanos;

  /**
   * Why a call cannot complete.
   *
   * @param closedRank the rank that takes no part in it
   */
  public record Obstacle(int closedRank, String sentence) {}

  public CommonCalls(int rank, int worldSize) {
    this.rank = rank;
    this.worldSize = worldSize;
  }

  /** Records that a rank makes no collective after this number, and no further transfer. */
  public void closed(int peer, long sequence) {
    synchronized (closedRanks) {
      closedRanks.set(peer);
    }
    if (sequence < last) {
      lastRank = peer;
      last = sequence;
    }
  }

  public boolean hasClosed(int peer) {
    synchronized (closedRanks) {
      return closedRanks.get(peer);
    }
  }

  /** Whether every call can still complete. */
  public boolean isAll() {
    return last == ALL;
  }

  /** Whether a closed rank takes no part in this member's next collective. */
  public boolean isNextBeyond(NativeCommunicator comm) {
    return last != ALL && comm.lastCollective() >= last;
  }

  /** Whether a closed rank takes no part in the collective that has failed on this member. */
  public boolean isFailedBeyond(NativeCommunicator comm) {
    if (last == ALL) {
      return false;
    }
    CallRecord own = comm.call(rank);
    // If a peer has ended the group, the library refuses a call at its entry, and the call has no
    // number.
    boolean refused = own.state() == CallRecord.State.DONE || own.state() == CallRecord.State.NONE;
    return own.groupSequence() + (refused ? 1 : 0) > last;
  }

  /** Why the next collective cannot complete. */
  public Obstacle obstacle() {
    return new Obstacle(
        lastRank, "rank %d closed the group after its call #%d".formatted(lastRank, last));
  }

  /**
   * Why the running call cannot complete; null if no call is running, it can complete, or it is too
   * early to tell.
   */
  public @Nullable Obstacle obstacle(NativeCommunicator comm, long nowNanos) {
    CallRecord own = comm.call(rank);
    boolean isRunning = isUnderWay(own);
    // The last transfer of a batch may be done before the others.
    if (own.isTransfer() && (isRunning || own.transfers() > 1)) {
      return transferObstacle(comm, own, nowNanos);
    }
    transfer = null;
    if (!isRunning) {
      return null;
    }
    // An abort would also end a call of other members that all ranks have made, so it waits until
    // they have finished it.
    return own.groupSequence() > last && allPast(comm, isLong(own.groupSequence(), nowNanos))
        ? obstacle()
        : null;
  }

  private boolean isLong(long sequence, long nowNanos) {
    if (beyond != sequence) {
      beyond = sequence;
      beyondSinceNanos = nowNanos;
    }
    return nowNanos - beyondSinceNanos > UNKNOWN_RANKS_NANOS;
  }

  // On a GPU this includes a call that has not begun: it waits behind others, and an abort would
  // not end it sooner.
  static boolean isUnderWay(CallRecord call) {
    return call.state() == CallRecord.State.RUNNING || call.state() == CallRecord.State.QUEUED;
  }

  private boolean allPast(NativeCommunicator comm, boolean unknownArePast) {
    for (int r = 0; r < worldSize; r++) {
      CallRecord call = comm.call(r);
      if (call.state() == CallRecord.State.UNKNOWN && unknownArePast) {
        continue;
      }
      if (call.groupSequence() < last
          || call.state() == CallRecord.State.QUEUED // queued behind a call that may not have begun
          || (call.groupSequence() == last && isUnderWay(call))) {
        return false;
      }
    }
    return true;
  }

  private @Nullable Obstacle transferObstacle(
      NativeCommunicator comm, CallRecord own, long nowNanos) {
    if (transfer == null || !isSame(transfer, own)) {
      transfer = own;
      transferSinceNanos = nowNanos;
      nextLookNanos = nowNanos + TRANSFER_NANOS;
    }
    if (nowNanos - nextLookNanos < 0) {
      return null;
    }
    nextLookNanos = nowNanos + TRANSFER_NANOS; // the check reads two whole records
    boolean patienceIsOver = nowNanos - transferSinceNanos > UNSURE_TRANSFER_NANOS;
    for (CallRecord call : comm.flightRecord(rank)) {
      if (isUnderWay(call)
          && call.isTransfer()
          && hasClosed(call.peer())
          && !hasMadeItsPart(comm, call, patienceIsOver)) {
        return new Obstacle(
            call.peer(),
            "rank %d closed the group and takes no part in %s"
                .formatted(call.peer(), call.description()));
      }
    }
    return null;
  }

  // Does not compare the times, because they are converted again at each reading.
  private static boolean isSame(CallRecord one, CallRecord other) {
    return one.collective() == other.collective()
        && one.peer() == other.peer()
        && one.sequence() == other.sequence();
  }

  private boolean hasMadeItsPart(NativeCommunicator comm, CallRecord call, boolean patienceIsOver) {
    List<CallRecord> theirs = comm.flightRecord(call.peer());
    for (CallRecord their : theirs) {
      if (their.isTransfer()
          && their.peer() == rank
          && their.isSend() != call.isSend()
          && their.sequence() >= call.sequence()) {
        return true;
      }
    }
    boolean isUnsure =
        theirs.size() == NativeCommunicator.FLIGHT_RECORDS || comm.isElsewhere(call.peer());
    return isUnsure && !patienceIsOver;
  }
}
