package io.nvrar.internal.device.host;

import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import java.util.List;

/** Recorded work, replayed in its order. Launching allocates nothing. */
final class HostGraph implements DeviceGraph {
  private volatile Replay replay;
  private volatile boolean closed;

  HostGraph(List<Runnable> recorded) {
    replay = new Replay(recorded);
  }

  @Override
  public void launch(DeviceStream stream) {
    requireOpen("launch");
    HostStream.require(stream, "launching a graph").submit(replay);
  }

  @Override
  public void recapture(DeviceStream stream, Runnable work) {
    requireOpen("recapture");
    replay = new Replay(HostStream.require(stream, "recapture").record(work));
  }

  @Override
  public void close() {
    closed = true;
  }

  private void requireOpen(String what) {
    if (closed) {
      throw new IllegalStateException(what + " was called on a closed graph");
    }
  }

  /** The work that one capture has recorded. */
  private final class Replay implements Runnable {
    private final Runnable[] work;

    Replay(List<Runnable> recorded) {
      work = recorded.toArray(Runnable[]::new);
    }

    @Override
    public void run() {
      // Checked again, because a capture may have recorded the launch of a graph that was closed
      // since.
      requireOpen("launch");
      for (Runnable piece : work) {
        piece.run();
      }
    }
  }
}
