package io.nvrar;

/** This process can take part in no group any more and must end. */
public final class CollectiveFatalException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  /** With one sentence that says why. */
  public CollectiveFatalException(String message) {
    super(message);
  }

  @Override
  CollectiveFatalException bare() {
    return new CollectiveFatalException(String.valueOf(getMessage()));
  }
}
