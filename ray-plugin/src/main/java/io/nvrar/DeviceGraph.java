package io.nvrar;

/**
 * Work recorded by {@link Device#capture}, to be launched many times. The buffers it uses must stay
 * open.
 */
public interface DeviceGraph extends AutoCloseable {

  /** Submits the recorded work, in its order, to a stream of the device it was captured on. */
  void launch(DeviceStream stream);

  /** Releases the graph. Idempotent. */
  @Override
  void close();
}
