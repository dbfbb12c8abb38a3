package io.nvrar;

/** This process can no longer take part in any group. It must be restarted. */
public final class CollectiveFatalException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  /** Creates one with a message of one sentence that says why. */
  public CollectiveFatalException(String message) {
    super(message);
  }

  @Override
  CollectiveFatalException bare() {
    return new CollectiveFatalException(String.valueOf(getMessage()));
  }
}
