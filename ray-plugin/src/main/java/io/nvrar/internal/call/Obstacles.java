package io.nvrar.internal.call;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Determines, while calls run, which of them cannot complete because ranks have closed the group: a
 * collective that a closed rank takes no part in, and a transfer whose peer has closed and has not
 * made its part. Used by the channel's thread only.
 */
public final class Obstacles {
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

  // The running transfer, and since when it has been seen running.
  private @Nullable CallRecord transfer;
  private long transferSinceNanos;
  private long nextLookNanos = System.nanoTime();

  // Of closed ranks on other hosts: how often they had been asked when their close was known, and
  // since when all that they sent before it has come.
  private final Map<Integer, Long> askedBefore = new HashMap<>();
  private final Map<Integer, Long> completeNanos = new HashMap<>();

  public Obstacles(int rank, int worldSize) {
    this.rank = rank;
    this.worldSize = worldSize;
  }

  /**
   * Why the running call cannot complete; null if no call is running, it can complete, or it is too
   * early to tell.
   */
  public ClosedRanks.@Nullable Obstacle of(
      NativeCommunicator comm, ClosedRanks closed, long nowNanos) {
    CallRecord own = comm.call(rank);
    boolean isRunning = own.isUnderWay();
    // The last transfer of a batch may be done before the others.
    if (own.isTransfer() && (isRunning || own.transfers() > 1)) {
      return ofTransfer(comm, closed, own, nowNanos);
    }
    transfer = null;
    if (!isRunning) {
      return null;
    }
    if (own.groupSequence() <= closed.last()) {
      return null;
    }
    // An abort would also end a call of other members that all ranks have made, so it waits until
    // they have finished it.
    if (allPast(comm, closed)) {
      return closed.obstacle();
    }
    if (nowNanos - nextLookNanos >= 0) {
      nextLookNanos = nowNanos + TRANSFER_NANOS;
      comm.refresh(false);
    }
    return null;
  }

  // A rank on another host answers at once where the way there is free, and behind what both have
  // sent where it is not.
  private boolean allPast(NativeCommunicator comm, ClosedRanks closed) {
    for (int r = 0; r < worldSize; r++) {
      if (closed.has(r)) {
        continue;
      }
      CallRecord call = comm.call(r);
      if (call.groupSequence() < closed.last()
          || call.state() == CallRecord.State.QUEUED // queued behind a call that may not have begun
          || (call.groupSequence() == closed.last() && call.isUnderWay())) {
        return false;
      }
    }
    return true;
  }

  private ClosedRanks.@Nullable Obstacle ofTransfer(
      NativeCommunicator comm, ClosedRanks closed, CallRecord own, long nowNanos) {
    if (transfer == null || !isSame(transfer, own)) {
      transfer = own;
      transferSinceNanos = nowNanos;
      nextLookNanos = nowNanos + TRANSFER_NANOS;
      askClosedRanks(comm, closed);
    }
    if (nowNanos - nextLookNanos < 0) {
      return null;
    }
    nextLookNanos = nowNanos + TRANSFER_NANOS; // the check reads two whole records
    askClosedRanks(comm, closed);
    for (CallRecord call : comm.flightRecord(rank)) {
      if (call.isUnderWay()
          && call.isTransfer()
          && closed.has(call.peer())
          && !hasMadeItsPart(comm, call, nowNanos)) {
        return new ClosedRanks.Obstacle(
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
  private void askClosedRanks(NativeCommunicator comm, ClosedRanks closed) {
    boolean asks = false;
    for (int r = 0; r < worldSize; r++) {
      if (closed.has(r) && comm.isElsewhere(r) && !completeNanos.containsKey(r)) {
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
    if (comm.hasAnsweredAfter(peer, askedBefore.getOrDefault(peer, Long.MAX_VALUE))) {
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
