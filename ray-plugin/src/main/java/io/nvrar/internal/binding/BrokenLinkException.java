package io.nvrar.internal.binding;

import io.nvrar.CollectiveException;
import io.nvrar.PeerLostException;

/**
 * The link between two ranks on different hosts broke, which fails their whole group. The library
 * knows the two ranks; the member knows their processes, and makes this the loss of one of them.
 */
public final class BrokenLinkException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  private final int missing;
  private final int origin;

  /**
   * Creates one with a message of one sentence.
   *
   * @param missing the rank that could not be reached; -1 if unknown
   * @param origin the rank that found this, the other end of the link; -1 if unknown
   */
  public BrokenLinkException(String message, int missing, int origin) {
    super(message);
    this.missing = missing;
    this.origin = origin;
  }

  public int missing() {
    return missing;
  }

  public int origin() {
    return origin;
  }

  /** Whether this rank is one end of the link. */
  public boolean isAt(int rank) {
    return rank == missing || rank == origin;
  }

  /** The exception for users, if no more can be said of the rank. */
  public PeerLostException toPeerLost() {
    return new PeerLostException(String.valueOf(getMessage()), missing, "", 0);
  }
}
