package io.nvrar;

import java.time.Duration;

/**
 * A place in the order of a stream: what was submitted before it has been executed when the event
 * has happened. On the host it happens at once. Any thread may use it; recording and asking at once
 * is not ordered.
 *
 * <p>A closed event throws {@link IllegalStateException}.
 */
public interface DeviceEvent extends AutoCloseable {

  /** The device that this event belongs to. */
  Device device();

  /**
   * Places the event behind everything submitted to {@code stream} so far; it forgets its former
   * place. While the stream captures, the event stands for a place in what is recorded: {@link
   * DeviceStream#waitFor} takes it, everything else here is an {@link IllegalStateException} until
   * it is recorded again.
   *
   * @throws IllegalArgumentException if the stream is one of another device
   */
  void record(DeviceStream stream);

  /** Whether it has happened; true if it was never recorded. */
  boolean isDone();

  /**
   * Waits until it has happened; returns at once if it was never recorded.
   *
   * @throws CollectiveException as {@link DeviceStream#synchronize} of the stream that it was
   *     recorded on
   */
  void synchronize();

  /**
   * The time that the device counted between two events, to about half a microsecond; both have
   * happened.
   *
   * @param start an event of the same device
   * @throws IllegalStateException if one was never recorded or has not happened
   */
  Duration elapsedSince(DeviceEvent start);

  /** Releases the event; who waits for it goes on waiting. Idempotent. */
  @Override
  void close();
}
