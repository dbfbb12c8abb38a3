package io.nvrar;

import org.jspecify.annotations.Nullable;

/**
 * A backend cannot run in this process. The message says what is missing and lists everything that
 * was tried. This is not the failure of a group: the process can still use another backend. If it
 * keeps one member from joining, the join of the others throws a {@link CollectiveException} that
 * says so.
 */
public final class BackendUnavailableException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Creates one with a message that names every path that was tried and why it failed. */
  public BackendUnavailableException(String message) {
    super(message);
  }

  /**
   * Creates one with a message that names every path that was tried and why it failed, and the
   * first cause.
   */
  public BackendUnavailableException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /** The object that Java serialization writes instead of this one. */
  Object writeReplace() {
    return CarriedCause.travelling(
        this, () -> new BackendUnavailableException(String.valueOf(getMessage())));
  }
}
