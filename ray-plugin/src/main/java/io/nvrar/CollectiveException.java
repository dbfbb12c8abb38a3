package io.nvrar;

import org.jspecify.annotations.Nullable;

/**
 * A group failed. Final for that group on this member. All subclasses hold only simple serialisable
 * fields, so that an exception thrown in an actor arrives at the driver whole.
 */
public class CollectiveException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With one sentence for the user. */
  public CollectiveException(String message) {
    super(message);
  }

  /** With one sentence for the user and what led to it. */
  public CollectiveException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
