package io.nvrar;

import java.io.Serializable;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What a member knows about one rank of its group. Immutable. */
public final class RankHealth implements Serializable {
  private static final long serialVersionUID = 1;

  private final int rank;
  private final String host;
  private final long pid;
  private final LastCall lastCall;
  private final long sequence;
  private final boolean closed;
  private final long silentMillis;
  private final @Nullable String link;

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
   * @param link see {@link #link}
   */
  public RankHealth(
      int rank,
      String host,
      long pid,
      LastCall lastCall,
      long sequence,
      boolean closed,
      long silentMillis,
      @Nullable String link) {
    this.rank = rank;
    this.host = host;
    this.pid = pid;
    this.lastCall = lastCall;
    this.sequence = sequence;
    this.closed = closed;
    this.silentMillis = silentMillis;
    this.link = link;
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

  /** The rank's last call. */
  public LastCall lastCall() {
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

  /**
   * This member's TCP connection to a rank on another host: both of its ends, and {@code open},
   * {@code closed} if the rank has left, or {@code broken}, such as {@code 10.0.0.1:40112 to
   * 10.0.0.2:38211, open}. Null for a rank on this host, and after this member has left.
   */
  public @Nullable String link() {
    return link;
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "rank %d (%s, process %d)%s: %s%s%s",
        rank,
        host,
        pid,
        closed ? ", closed" : "",
        lastCall,
        silentMillis < 0
            ? ""
            : String.format(Locale.ROOT, ", last heard of %d ms ago", silentMillis),
        link == null ? "" : "; link " + link);
  }
}
