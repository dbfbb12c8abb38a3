package io.nvrar;

/**
 * A queue of work on a device, executed in order. On a GPU what is submitted is executed later, and
 * what fails then is thrown to whoever waits: by {@link #synchronize}, {@link
 * DeviceEvent#synchronize}, by a copy of {@link DeviceBuffer} to Java on this stream and, once for
 * each group, by those to and from Java that name no stream, which wait for all of their device.
 * The host's streams are immediate: what is submitted has been executed, by the submitting thread,
 * when the submitting call returns. Safe for use by many threads; what several submit to a stream
 * of the host at once is not ordered by it.
 *
 * <p>Whatever is submitted to a closed stream is refused with an {@link IllegalStateException}.
 */
public interface DeviceStream extends AutoCloseable {

  /** The device that this stream belongs to. */
  Device device();

  /**
   * The native handle of the stream; 0 on the host.
   *
   * @throws IllegalStateException if the stream is one of a GPU and closed
   */
  long handle();

  /** Whether submitted work is being recorded by {@link Device#capture}. */
  boolean isCapturing();

  /**
   * Copies all elements of {@code source} to the front of {@code target}, which has the same type,
   * in the order of this stream and without waiting for it. Each is memory of this stream's device
   * or pinned ({@link Device#allocatePinned}), and must stay open until the copy, or the last
   * launch of the graph that recorded it, has been executed.
   *
   * @throws IllegalArgumentException if the elements do not fit, or one of the two is other memory
   * @throws IllegalStateException if the stream or a buffer is closed
   */
  void copy(DeviceBuffer source, DeviceBuffer target);

  /**
   * Has what is submitted from now on wait, on the device, for what {@code event} stands for; for
   * nothing if it was never recorded. An event that was recorded while its stream captures makes
   * this stream part of that capture, until the capture ends; the host captures one stream only.
   *
   * @throws IllegalArgumentException if the event is one of another device
   * @throws IllegalStateException if the stream or the event is closed
   */
  void waitFor(DeviceEvent event);

  /**
   * Waits until everything submitted has been executed. It throws the failure of any open group
   * with calls on this stream; the failure of a group that has been closed since is thrown once.
   *
   * @throws CollectiveException if a group whose calls were submitted here has failed
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
