package io.nvrar;

import java.io.Serializable;

/** What a member knows about one rank of its group. Immutable. */
public final class RankHealth implements Serializable {
  private static final long serialVersionUID = 1;

  private final int rank;
  private final String host;
  private final long pid;
  private final String lastCall;
  private final long sequence;
  private final boolean closed;
  private final long silentMillis;

  /**
   * Creates a snapshot.
   *
   * @param rank see {@link #rank}
   * @param host see {@link #host}
   * @param pid see {@link #pid}
   * @param lastCall see {@link #lastCall}
   * @param sequence see {@link #sequence}
   * @param closed see {@link #closed}
   * @param silentMillis see {@link #silentMillis}
   */
  public RankHealth(
      int rank,
      String host,
      long pid,
      String lastCall,
      long sequence,
      boolean closed,
      long silentMillis) {
    this.rank = rank;
    this.host = host;
    this.pid = pid;
    this.lastCall = lastCall;
    this.sequence = sequence;
    this.closed = closed;
    this.silentMillis = silentMillis;
  }

  /** The rank, 0 to {@code worldSize() - 1}. */
  public int rank() {
    return rank;
  }

  /** The name of the host that the rank runs on. */
  public String host() {
    return host;
  }

  /** The process id of the rank on that host. */
  public long pid() {
    return pid;
  }

  /**
   * The rank's last call and its state, such as {@code allReduce #41 float32[1024] SUM (one-shot),
   * running}; {@code no call yet} before its first call; {@code unknown, on another host} if this
   * member's host does not know it.
   */
  public String lastCall() {
    return lastCall;
  }

  /** The number of the last collective that the rank has begun; 0 if none, or if unknown. */
  public long sequence() {
    return sequence;
  }

  /** Whether the rank is known to have closed the group. */
  public boolean closed() {
    return closed;
  }

  /**
   * Milliseconds since this member last heard from the rank on the control channel; -1 if unknown.
   */
  public long silentMillis() {
    return silentMillis;
  }

  @Override
  public String toString() {
    return "rank %d (%s, process %d)%s: %s%s"
        .formatted(
            rank,
            host,
            pid,
            closed ? ", closed" : "",
            lastCall,
            silentMillis < 0 ? "" : ", last heard of %d ms ago".formatted(silentMillis));
  }
}
