package io.nvrar.device.async;

import io.nvrar.DeviceStream;

/**
 * A stream on which a call returns when it is enqueued. Whoever waits for the stream hears of what
 * has failed there.
 */
public interface AsyncStream extends DeviceStream {

  /**
   * Keeps the stream, so that its handle is good, until {@link #release}; and has whoever waits for
   * the stream from now on hear of the failures of these calls. Allocates nothing where it carries
   * them already.
   *
   * @throws IllegalStateException if the stream is closed; then {@link #release} must not follow
   */
  void carry(EnqueuedCalls calls);

  /** Undoes one {@link #carry}. */
  void release();

  /** Whether {@link #close} was called. */
  boolean isClosed();
}
