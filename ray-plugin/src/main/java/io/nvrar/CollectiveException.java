package io.nvrar;

import org.jspecify.annotations.Nullable;

/**
 * A group has failed. The failure is final for that group on this member. All subclasses hold only
 * simple serializable fields, and their causes are serialized as {@link CarriedCause}, so that an
 * exception thrown in an actor arrives at the driver complete.
 */
public class CollectiveException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Creates one with a message of one sentence. */
  public CollectiveException(String message) {
    super(message);
  }

  /** Creates one with a message of one sentence and its cause. */
  public CollectiveException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /** A copy of the same class, with the same message and fields and nothing else. */
  CollectiveException bare() {
    return new CollectiveException(String.valueOf(getMessage()));
  }

  /** The object that Java serialization writes instead of this one. */
  Object writeReplace() {
    return CarriedCause.travelling(this, this::bare);
  }
}
