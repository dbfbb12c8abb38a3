package io.nvrar;

import java.time.Duration;
import java.util.concurrent.CompletionStage;

/**
 * A point in stream order: once the event has happened, everything submitted to the stream before
 * it has been executed. On the host it happens at once. Any thread may use it, but a {@link
 * #record} is not ordered against a concurrent query.
 *
 * <p>The methods of a closed event throw {@link IllegalStateException}.
 */
public interface DeviceEvent extends AutoCloseable {

  /** The device that this event belongs to. */
  Device device();

  /**
   * The native handle of the event, by which other code in this process can wait for its present
   * place; 0 on the host. It is valid until the event is closed or recorded again, which may
   * replace it, so ask for it after each {@link #record}. What waits for it on a device by then
   * goes on to do so.
   *
   * @throws IllegalStateException if the event is a GPU's and is closed
   */
  long handle();

  /**
   * Places the event behind everything submitted to {@code stream} so far, and discards its former
   * place. While the stream captures, the event marks a point of the recorded work: {@link
   * DeviceStream#waitFor} accepts it, and every other method throws an {@link
   * IllegalStateException} until the event is recorded again.
   *
   * @throws IllegalArgumentException if the stream belongs to another device
   * @throws UnsupportedOperationException if the event wraps one of other code, which records it
   */
  void record(DeviceStream stream);

  /** Whether the event has happened; true if it was never recorded. */
  boolean isDone();

  /**
   * Waits until the event has happened; returns at once if it was never recorded.
   *
   * @throws CollectiveException under the same conditions as {@link DeviceStream#synchronize} of
   *     the stream that the event was recorded on
   */
  void synchronize();

  /**
   * A stage that completes when the work before the event's present place has been executed.
   * Recording the event again, or closing it or its stream, does not affect the stage. The stage is
   * already complete if the event was never recorded, and always on the host.
   *
   * <p>The stage completes exceptionally with what {@link #synchronize} would then throw: if a
   * group whose calls were submitted to the stream has failed, or if the GPU can no longer run
   * anything. Finding out why a group has failed may delay the stage by up to {@link
   * GroupConfig#heartbeatLimit}; the stages of other streams are not delayed. Reading the failure
   * from the stage does not consume it: {@link #synchronize} and every other wait for the stream
   * still throw it. The stage fails with an {@link IllegalStateException} if the process cannot
   * start the thread that would complete it.
   *
   * <p>One daemon thread of the device completes the stages of all its events, about a millisecond
   * after they have happened. A dependent action whose method has no {@code Async} in its name runs
   * on that thread, or, if the stage is already complete, on the thread that adds the action. On
   * the device's thread it delays all other stages of the device, so it must be short and must not
   * wait for one of them. Use the {@code Async} methods for anything else.
   *
   * @throws IllegalStateException if the event is closed, or was recorded while its stream captured
   */
  CompletionStage<Void> whenDone();

  /**
   * The time that the device measured between two events, with a resolution of about half a
   * microsecond. Both events must have happened.
   *
   * @param start an event of the same device
   * @throws IllegalStateException if one was never recorded or has not happened
   */
  Duration elapsedSince(DeviceEvent start);

  /** Releases the event. Pending waits remain valid. Idempotent. */
  @Override
  void close();
}
