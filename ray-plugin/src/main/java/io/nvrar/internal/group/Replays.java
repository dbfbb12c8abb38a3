package io.nvrar.internal.group;

import io.nvrar.internal.device.async.AsyncStream;
import java.util.Arrays;
import java.util.stream.Stream;

/**
 * The streams on which graphs with calls of a group were launched. Neither the group nor the device
 * counts launches of graphs that have not begun, but a stream can be asked whether it has executed
 * everything. Thread-safe.
 */
final class Replays {
  /** Copy-on-write: the array is never changed, but replaced under the lock. */
  private volatile AsyncStream[] streams = {};

  /** Called before a graph is launched on a stream. Allocates nothing for a known stream. */
  void on(AsyncStream stream) {
    for (AsyncStream known : streams) {
      if (known == stream) {
        return;
      }
    }
    synchronized (this) {
      streams =
          Stream.concat(
                  Arrays.stream(streams).filter(known -> known != stream && !known.isClosed()),
                  Stream.of(stream))
              .toArray(AsyncStream[]::new);
    }
  }

  /** Whether everything launched so far has been executed. Never blocks. */
  boolean areOver() {
    for (AsyncStream stream : streams) {
      if (!stream.isIdle()) {
        return false;
      }
    }
    return true;
  }
}
