package io.nvrar.internal.call;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import java.util.BitSet;
import java.util.Locale;

/**
 * The ranks that have closed a group, and the last collective that all of them have made: later
 * ones cannot complete. Immutable.
 */
public final class ClosedRanks {
  /** No rank has closed. */
  public static final ClosedRanks NONE = new ClosedRanks(new BitSet(), Long.MAX_VALUE, -1);

  /** Never changed. */
  private final BitSet ranks;

  private final long last;
  private final int lastRank;

  /**
   * Why a call cannot complete.
   *
   * @param closedRank the rank that takes no part in it
   */
  public record Obstacle(int closedRank, String sentence) {}

  private ClosedRanks(BitSet ranks, long last, int lastRank) {
    this.ranks = ranks;
    this.last = last;
    this.lastRank = lastRank;
  }

  /** With a rank that makes no collective after this number, and no further transfer. */
  public ClosedRanks with(int rank, long sequence) {
    BitSet more = new BitSet(); // and no clone(), which writes to what it copies
    more.or(ranks);
    more.set(rank);
    return sequence < last
        ? new ClosedRanks(more, sequence, rank)
        : new ClosedRanks(more, last, lastRank);
  }

  public boolean has(int rank) {
    return ranks.get(rank);
  }

  public boolean areNone() {
    return this == NONE;
  }

  /** The number of the last collective that all closed ranks have made. */
  long last() {
    return last;
  }

  /** Whether a closed rank takes no part in this member's next collective. */
  public boolean missNext(NativeCommunicator comm) {
    return !areNone() && comm.lastCollective() >= last;
  }

  /** Whether a closed rank takes no part in the collective that has failed on this member. */
  public boolean missFailed(NativeCommunicator comm, int rank) {
    if (areNone()) {
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
}
