package io.nvrar;

import java.time.Duration;
import java.util.concurrent.CompletionStage;

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
   * A stage that completes when what the event stands for at this moment has been executed. That
   * the event is recorded again later, or that it or its stream is closed, does not matter to the
   * stage. It is complete already if the event was never recorded, and on the host.
   *
   * <p>It completes exceptionally with what {@link #synchronize} would throw by then: if a group
   * whose calls were submitted to the stream has failed, or if the GPU can run nothing any more. To
   * learn why a group has failed may take it as long as {@link GroupConfig#heartbeatLimit}; the
   * stages of other streams do not wait for that. {@link #synchronize} and whatever else waits for
   * the stream throw the same failure, whoever has taken it from here. The stage fails with an
   * {@link IllegalStateException} if the process has no room for the thread that is to complete it.
   *
   * <p>One daemon thread of the device completes the stages of all its events, about a millisecond
   * after they have happened. A dependent action whose method has no {@code Async} in its name runs
   * on that thread, or, if the stage is complete already, on the thread that adds the action. On
   * the device's thread it holds up all other stages of the device, so it must be short, and must
   * not wait for one of them: take the {@code Async} methods for anything else.
   *
   * @throws IllegalStateException if the event is closed, or was recorded while its stream captured
   */
  CompletionStage<Void> whenDone();

  /**
   * The time that the device counted between two events, to about half a microsecond; both have
   * happened.
   *
   * @param start an event of the same device
   * @throws IllegalStateException if one was never recorded or has not happened
   */
  Duration elapsedSince(DeviceEvent start);

  /** Releases the event; whatever waits for it goes on waiting. Idempotent. */
  @Override
  void close();
}
