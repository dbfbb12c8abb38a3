package io.nvrar;

/**
 * A device, or the host, does not have the free memory that was asked for; nothing was allocated.
 * Not the failure of a group, and not an {@link OutOfMemoryError}: the Java heap is not concerned,
 * and the process can go on, for example with a smaller buffer.
 */
public final class DeviceMemoryException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Creates one with a message that says what was to be allocated where. */
  public DeviceMemoryException(String message) {
    super(message);
  }
}
