package io.nvrar;

/** A member's process ended, or stopped answering, before the group was closed. */
public final class PeerLostException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  private final int lostRank;
  private final String host;
  private final long pid;

  /**
   * Creates one with a message of one sentence.
   *
   * @param message says who was lost and in which call this member was
   * @param lostRank the rank that was lost; -1 if the lost process is not a member of this group
   *     but of the group that this one was split from
   * @param host the host that the process ran on
   * @param pid the process id on that host
   */
  public PeerLostException(String message, int lostRank, String host, long pid) {
    super(message);
    this.lostRank = lostRank;
    this.host = host;
    this.pid = pid;
  }

  @Override
  PeerLostException bare() {
    return new PeerLostException(String.valueOf(getMessage()), lostRank, host, pid);
  }

  /**
   * The rank that was lost; -1 if the lost process is not a member of this group but of the group
   * that this one was split from.
   */
  public int lostRank() {
    return lostRank;
  }

  /** The host that the lost process ran on. */
  public String host() {
    return host;
  }

  /** The process id of the lost process on that host. */
  public long pid() {
    return pid;
  }
}
