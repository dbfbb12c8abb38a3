package io.nvrar;

import org.jspecify.annotations.Nullable;

/**
 * A group failed. Final for that group on this member. All subclasses hold only simple serialisable
 * fields, and what led to them travels as a {@link CarriedCause}, so that an exception thrown in an
 * actor arrives at the driver whole.
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

  /** One of the same class, with the same message and fields and nothing else. */
  CollectiveException bare() {
    return new CollectiveException(String.valueOf(getMessage()));
  }

  /** What serializers write in the place of this. */
  Object writeReplace() {
    return CarriedCause.travelling(this, this::bare);
  }
}
