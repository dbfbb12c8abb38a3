package io.nvrar;

/** A deadline passed while members were missing. */
public final class CollectiveTimeoutException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  private final int[] missingRanks;

  /** With one sentence that says who is missing in which call, and the missing ranks. */
  public CollectiveTimeoutException(String message, int... missingRanks) {
    super(message);
    this.missingRanks = missingRanks.clone();
  }

  @Override
  CollectiveTimeoutException bare() {
    return new CollectiveTimeoutException(String.valueOf(getMessage()), missingRanks);
  }

  /** The ranks that were waited for, ascending; empty where that is unknown. */
  public int[] missingRanks() {
    return missingRanks.clone();
  }
}
