package io.nvrar;

/**
 * A queue of work on a device, executed in order. The host's streams are immediate: what is
 * submitted has been executed, by the submitting thread, when the submitting call returns. Safe for
 * use by many threads; what several submit to a stream of the host at once is not ordered by it.
 *
 * <p>Whatever is submitted to a closed stream is refused with an {@link IllegalStateException}.
 */
public interface DeviceStream extends AutoCloseable {

  /** The device that this stream belongs to. */
  Device device();

  /** The native handle of the stream; 0 on the host. */
  long handle();

  /** Whether submitted work is being recorded by {@link Device#capture}. */
  boolean isCapturing();

  /**
   * Waits until everything submitted has been executed. Throws nothing of a group's failure: {@link
   * CollectiveGroup#throwIfFailed} does.
   *
   * @throws IllegalStateException if the stream is closed, or captures: what is recorded does not
   *     run by waiting
   */
  void synchronize();

  /**
   * Releases the stream. A capture that is going on fails, and its record is dropped. Idempotent.
   */
  @Override
  void close();
}
