package io.nvrar.internal.device.async;

import io.nvrar.DeviceStream;

/**
 * A stream on which a call returns when it is enqueued. Whoever waits for the stream hears of what
 * has failed there.
 */
public interface AsyncStream extends DeviceStream {

  /**
   * Keeps the stream, so that its handle is good, until {@link #release}; and has whoever waits for
   * the stream from now on hear of the failures of these calls; and if the stream takes part in a
   * capture of {@link io.nvrar.Device#capture}, whoever launches its graph. Allocates nothing where
   * it carries them already.
   *
   * @throws IllegalStateException if the stream is closed; then {@link #release} must not follow
   */
  void carry(EnqueuedCalls calls);

  /**
   * Undoes one {@link #carry}. If the stream was closed meanwhile and cannot be destroyed now, the
   * log says so and nothing is thrown.
   */
  void release();

  /**
   * Whether all that was submitted has been executed. True also where that cannot be asked: of a
   * stream that is closed, captures, or is broken. Never blocks.
   */
  boolean isIdle();

  /** Whether {@link #close} or {@link #retire} was called. */
  boolean isClosed();

  /**
   * Closes the stream where its user does not: once all that was submitted has been executed, for
   * which it waits. What has failed here is still thrown once to whoever waits for this stream or,
   * by a blocking copy, for its device. A capture that is going on fails. Idempotent.
   *
   * @throws RuntimeException if the device fails; the stream is closed all the same
   */
  void retire();
}
