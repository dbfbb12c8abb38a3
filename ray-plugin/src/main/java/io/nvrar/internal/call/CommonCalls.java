package io.nvrar.internal.call;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
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
   * no CPU for a while. What is under way from another host may take any time, so there it counts
   * once all of it has come.
   */
  private static final long UNSURE_TRANSFER_NANOS = TimeUnit.SECONDS.toNanos(2);

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
  private long nextLookNanos = System.nanoTime();

  // Of closed ranks on other hosts: how often they had been asked when their close was known, and
  // since when all that they sent before it has come. Used by the channel's thread only.
  private final Map<Integer, Long> askedBefore = new HashMap<>();
  private final Map<Integer, Long> completeNanos = new HashMap<>();

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
        lastRank,
        last == 0
            ? String.format(
                Locale.ROOT,
                "rank %d closed the group before its first call; if an exception made it close, abort(e) before the close gives the reason",
                lastRank)
            : String.format(
                Locale.ROOT, "rank %d closed the group after its call #%d", lastRank, last));
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
    if (own.groupSequence() <= last) {
      return null;
    }
    // An abort would also end a call of other members that all ranks have made, so it waits until
    // they have finished it.
    if (allPast(comm)) {
      return obstacle();
    }
    if (nowNanos - nextLookNanos >= 0) {
      nextLookNanos = nowNanos + TRANSFER_NANOS;
      comm.refresh(false);
    }
    return null;
  }

  // On a GPU this includes a call that has not begun: it waits behind others, and an abort would
  // not end it sooner.
  static boolean isUnderWay(CallRecord call) {
    return call.state() == CallRecord.State.RUNNING || call.state() == CallRecord.State.QUEUED;
  }

  // A rank on another host answers at once where the way there is free, and behind what both have
  // sent where it is not.
  private boolean allPast(NativeCommunicator comm) {
    for (int r = 0; r < worldSize; r++) {
      if (hasClosed(r)) {
        continue;
      }
      CallRecord call = comm.call(r);
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
      askClosedRanks(comm);
    }
    if (nowNanos - nextLookNanos < 0) {
      return null;
    }
    nextLookNanos = nowNanos + TRANSFER_NANOS; // the check reads two whole records
    askClosedRanks(comm);
    for (CallRecord call : comm.flightRecord(rank)) {
      if (isUnderWay(call)
          && call.isTransfer()
          && hasClosed(call.peer())
          && !hasMadeItsPart(comm, call, nowNanos)) {
        return new Obstacle(
            call.peer(),
            String.format(
                Locale.ROOT,
                "rank %d closed the group and takes no part in %s",
                call.peer(),
                call.description()));
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

  /** Asks those on other hosts of which something may still be under way. */
  private void askClosedRanks(NativeCommunicator comm) {
    boolean asks = false;
    for (int r = 0; r < worldSize; r++) {
      if (hasClosed(r) && comm.isElsewhere(r) && !completeNanos.containsKey(r)) {
        askedBefore.putIfAbsent(r, comm.asked(r));
        asks = true;
      }
    }
    if (asks) {
      comm.refresh(false);
    }
  }

  // Any answer counts that was asked for after the close: it comes behind all that was sent before.
  private long completeSince(NativeCommunicator comm, int peer, long nowNanos) {
    if (comm.hasAnsweredAfter(peer, askedBefore.getOrDefault(peer, ALL))) {
      completeNanos.putIfAbsent(peer, nowNanos);
    }
    return completeNanos.getOrDefault(peer, nowNanos);
  }

  private boolean hasMadeItsPart(NativeCommunicator comm, CallRecord call, long nowNanos) {
    List<CallRecord> theirs = comm.flightRecord(call.peer());
    for (CallRecord their : theirs) {
      if (their.isTransfer()
          && their.peer() == rank
          && their.isSend() != call.isSend()
          && their.sequence() >= call.sequence()) {
        return true;
      }
    }
    boolean isElsewhere = comm.isElsewhere(call.peer());
    if (!isElsewhere && theirs.size() < NativeCommunicator.FLIGHT_RECORDS) {
      return false;
    }
    long unsureNanos = nowNanos - transferSinceNanos;
    if (isElsewhere) {
      unsureNanos = Math.min(unsureNanos, nowNanos - completeSince(comm, call.peer(), nowNanos));
    }
    return unsureNanos <= UNSURE_TRANSFER_NANOS;
  }
}
