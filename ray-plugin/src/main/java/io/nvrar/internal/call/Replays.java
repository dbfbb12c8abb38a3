package io.nvrar.internal.call;

import io.nvrar.internal.device.async.AsyncStream;
import java.util.Arrays;
import java.util.stream.Stream;

/**
 * On which streams graphs with calls of a group were launched. Neither the group nor the device
 * counts launches of graphs that have not begun; whether a stream is through can be asked. Safe for
 * use by many threads.
 */
final class Replays {
  /** Never changed, but replaced under the lock. */
  private volatile AsyncStream[] streams = {};

  /** A graph is about to be launched there. Allocates nothing for a stream that is known. */
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

  /** Whether all that was launched so far has been executed. Never blocks. */
  boolean areOver() {
    for (AsyncStream stream : streams) {
      if (!stream.isIdle()) {
        return false;
      }
    }
    return true;
  }
}
