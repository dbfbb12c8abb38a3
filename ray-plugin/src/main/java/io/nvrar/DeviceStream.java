package io.nvrar;

/**
 * A queue of work on a device, executed in order. The host's streams are immediate: what is
 * submitted has been executed when the submitting call returns.
 */
public interface DeviceStream extends AutoCloseable {

  /** The device that this stream belongs to. */
  Device device();

  /** The native handle of the stream; 0 on the host. */
  long handle();

  /** Whether submitted work is being recorded by {@link Device#capture}. */
  boolean isCapturing();

  /** Waits until everything submitted has been executed. */
  void synchronize();

  /** Releases the stream. Idempotent. */
  @Override
  void close();
}
