package io.nvrar;

/**
 * A queue of work on a device, executed in order.
 *
 * <p>On a GPU the work is executed after it was submitted. Its failures are thrown to whoever
 * waits: by {@link #synchronize}, by {@link DeviceEvent#synchronize}, by a copy from a {@link
 * DeviceBuffer} to Java on this stream and, once for each group, by copies to and from Java without
 * a stream, which wait for the whole device.
 *
 * <p>The host's streams are immediate: the submitting thread executes the work before the
 * submitting call returns.
 *
 * <p>Thread-safe. A stream of the host does not order what several threads submit concurrently.
 *
 * <p>Submitting to a closed stream throws an {@link IllegalStateException}.
 */
public interface DeviceStream extends AutoCloseable {

  /** The device that this stream belongs to. */
  Device device();

  /**
   * The native handle of the stream; 0 on the host.
   *
   * @throws IllegalStateException if the stream is a GPU's and is closed
   */
  long handle();

  /** Whether submitted work is being recorded by {@link Device#capture}. */
  boolean isCapturing();

  /**
   * Enqueues a copy of all elements of {@code source} to the front of {@code target}, which has the
   * same type. Does not wait for it. Each buffer is memory of this stream's device or pinned memory
   * ({@link Device#allocatePinned}), and must stay open until the copy, or the last launch of the
   * graph that recorded it, has been executed.
   *
   * @throws IllegalArgumentException if the types differ, the elements do not fit, or a buffer is
   *     neither this device's memory nor pinned
   * @throws IllegalStateException if the stream or a buffer is closed
   */
  void copy(DeviceBuffer source, DeviceBuffer target);

  /**
   * Makes the work submitted from now on wait, on the device, until {@code event} has happened; has
   * no effect if the event was never recorded. If the event was recorded while its stream captured,
   * this stream becomes part of that capture until it ends. The host captures one stream only.
   *
   * @throws IllegalArgumentException if the event belongs to another device
   * @throws IllegalStateException if the stream or the event is closed
   */
  void waitFor(DeviceEvent event);

  /**
   * Waits until everything submitted has been executed. Throws the failure of any open group with
   * calls on this stream; the failure of a group that was closed since is thrown once.
   *
   * @throws CollectiveException if a group whose calls were submitted here has failed
   * @throws IllegalStateException if the stream is closed, or is capturing: recorded work does not
   *     run, so it cannot be waited for
   */
  void synchronize();

  /**
   * Releases the stream. A capture in progress fails, and its recorded work is dropped. Idempotent.
   */
  @Override
  void close();
}
