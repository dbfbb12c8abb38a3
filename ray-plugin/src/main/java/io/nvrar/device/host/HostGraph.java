package io.nvrar.device.host;

import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import java.util.List;

/** Recorded work, replayed in its order. Launching allocates nothing. */
final class HostGraph implements DeviceGraph {
  private final Runnable[] work;
  private final Runnable replay = this::replay;
  private volatile boolean closed;

  HostGraph(List<Runnable> recorded) {
    work = recorded.toArray(Runnable[]::new);
  }

  @Override
  public void launch(DeviceStream stream) {
    requireOpen();
    HostStream.require(stream, "launching a graph").submit(replay);
  }

  @Override
  public void close() {
    closed = true;
  }

  private void replay() {
    // Again, because a capture may have recorded the launch of a graph that was closed since.
    requireOpen();
    for (Runnable piece : work) {
      piece.run();
    }
  }

  private void requireOpen() {
    if (closed) {
      throw new IllegalStateException("launch was called on a closed graph");
    }
  }
}
