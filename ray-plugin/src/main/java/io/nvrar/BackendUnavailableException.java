package io.nvrar;

import org.jspecify.annotations.Nullable;

/**
 * A backend cannot run in this process; the message says what is missing and everything that was
 * tried. It is no failure of a group: the process can still use another backend. Where it keeps one
 * member from joining, the others' join ends with a {@link CollectiveException} that says so.
 */
public final class BackendUnavailableException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With every path that was tried and why it failed. */
  public BackendUnavailableException(String message) {
    super(message);
  }

  /** With every path that was tried and why it failed, and the first cause. */
  public BackendUnavailableException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /** What serializers write in the place of this. */
  Object writeReplace() {
    return CarriedCause.travelling(
        this, () -> new BackendUnavailableException(String.valueOf(getMessage())));
  }
}
