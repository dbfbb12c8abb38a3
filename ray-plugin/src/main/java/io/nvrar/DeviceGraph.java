package io.nvrar;

/**
 * Work recorded by {@link Device#capture}, to be launched many times. The buffers it uses must stay
 * open. Any thread may launch and close it; but a group runs one call at a time, and refuses one
 * that a second launch makes meanwhile.
 */
public interface DeviceGraph extends AutoCloseable {

  /**
   * Submits the recorded work, in its order, to a stream of the device it was captured on. While
   * that stream captures, the host records the launch; a GPU's driver refuses it, and the capture
   * is lost.
   *
   * <p>On a GPU this returns when the work is enqueued; a group whose calls are in the graph, on
   * whichever stream of the capture they were made, must be neither closed nor failed, and what
   * waits for {@code stream} throws its failure from now on. On the host the work runs here, and
   * this throws what a piece of it throws: of a group's calls what {@link CollectiveGroup} says,
   * such as a {@link CollectiveException} if the group has failed and an {@link
   * IllegalStateException} if it, or a buffer, is closed. The pieces after that one do not run; the
   * next launch begins with the first again.
   *
   * @throws IllegalArgumentException if the stream is one of another device
   * @throws IllegalStateException if the graph or the stream is closed, or the stream is one of a
   *     GPU and captures
   */
  void launch(DeviceStream stream);

  /**
   * Records anew, as {@link Device#capture} does, and takes the place of what was recorded before.
   * What was launched already, or recorded by another graph, stays what it was; if this throws, so
   * does this graph.
   *
   * @throws IllegalStateException also if the graph is closed
   */
  void recapture(DeviceStream stream, Runnable work);

  /** Releases the graph; what was launched is executed. Idempotent. */
  @Override
  void close();
}
