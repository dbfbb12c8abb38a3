package io.nvrar;

/** A deadline passed while other members were missing. */
public final class CollectiveTimeoutException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  private final int[] missingRanks;

  /** Creates one with the missing ranks and a message that says who is missing in which call. */
  public CollectiveTimeoutException(String message, int... missingRanks) {
    super(message);
    this.missingRanks = missingRanks.clone();
  }

  @Override
  CollectiveTimeoutException bare() {
    return new CollectiveTimeoutException(String.valueOf(getMessage()), missingRanks);
  }

  /** The ranks that this member waited for, ascending; empty if they are unknown. */
  public int[] missingRanks() {
    return missingRanks.clone();
  }
}
