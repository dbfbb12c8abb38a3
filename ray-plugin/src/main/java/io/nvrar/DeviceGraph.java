package io.nvrar;

/**
 * Work recorded by {@link Device#capture}, which can be launched many times. The buffers it uses
 * must stay open. Any thread may launch and close it. A group still runs one call at a time, and
 * refuses a call that a concurrent launch makes.
 */
public interface DeviceGraph extends AutoCloseable {

  /**
   * Submits the recorded work, in recorded order, to a stream of the device it was captured on. If
   * that stream is capturing, the host records the launch; a GPU's driver refuses it, and that
   * capture is lost.
   *
   * <p>On a GPU this returns when the work is enqueued. No group with calls in the graph, on any
   * stream of the capture, may be closed or have failed. From now on waits for {@code stream} throw
   * the failures of these groups. On the host this method runs the work itself and throws what the
   * work throws: for a group's calls a {@link CollectiveException} if the group has failed, an
   * {@link IllegalStateException} if the group or a buffer is closed, and whatever else {@link
   * CollectiveGroup} describes. The remaining work is then skipped; the next launch starts from the
   * beginning.
   *
   * @throws IllegalArgumentException if the stream belongs to another device
   * @throws IllegalStateException if the graph or the stream is closed, or if the stream is a GPU's
   *     and is capturing
   */
  void launch(DeviceStream stream);

  /**
   * Records again, as {@link Device#capture} does, and replaces the recorded work. Launches made
   * before, and other graphs that recorded a launch of this one, are not affected. If this method
   * throws, the graph keeps its former work.
   *
   * @throws IllegalArgumentException as {@link Device#capture} throws it
   * @throws IllegalStateException as {@link Device#capture} throws it, and if the graph is closed
   */
  void recapture(DeviceStream stream, Runnable work);

  /** Releases the graph. Launches made before are still executed. Idempotent. */
  @Override
  void close();
}
