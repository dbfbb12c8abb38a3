package io.nvrar;

/** A member's process ended, or no longer answers, before the group was closed. */
public final class PeerLostException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  private final int lostRank;
  private final String host;
  private final long pid;

  /**
   * With one sentence for the user.
   *
   * @param message who was lost and in which call this member was
   * @param lostRank the rank that was lost; -1 if it is no member of this group but of the one that
   *     it was split from
   * @param host the host it ran on
   * @param pid its process id there
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
   * The rank that was lost; -1 if it is no member of this group but of the one it was split from.
   */
  public int lostRank() {
    return lostRank;
  }

  /** The host it ran on. */
  public String host() {
    return host;
  }

  /** Its process id on that host. */
  public long pid() {
    return pid;
  }
}
