package io.nvrar.internal.device.cuda;

import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** An instantiated graph. The driver allows only one thread at a time to use it. */
final class CudaGraph implements DeviceGraph {
  private final CudaDevice device;

  // Guarded by this; null when closed.
  private CudaStream.@Nullable Recorded recorded;

  CudaGraph(CudaDevice device, CudaStream.Recorded recorded) {
    this.device = device;
    this.recorded = recorded;
  }

  @Override
  public void launch(DeviceStream stream) {
    CudaStream on = device.requireStream(stream, "launching a graph");
    synchronized (this) {
      CudaStream.Recorded now = requireOpen("launch");
      launch(now.launch(), on, now.calls(), 0);
    }
  }

  // Enters all groups whose calls are in the graph, so that none closes before the launch is
  // enqueued. Allocates nothing.
  private static void launch(
      CudaStream.StreamCall graph, CudaStream on, EnqueuedCalls[] calls, int entered) {
    if (entered == calls.length) {
      on.submit("submit", "cuGraphLaunch", graph);
      return;
    }
    EnqueuedCalls next = calls[entered];
    next.enter(on);
    try {
      on.carry(next);
      try {
        launch(graph, on, calls, entered + 1);
      } finally {
        on.release();
      }
    } finally {
      next.leave();
    }
  }

  @Override
  public void recapture(DeviceStream stream, Runnable work) {
    CudaStream on = device.requireStream(stream, "recapture");
    synchronized (this) {
      requireOpen("recapture");
    }
    // Not under the lock, because the work may launch this graph.
    CudaStream.Recorded next = on.record(work);
    CudaStream.Recorded before;
    synchronized (this) {
      before = recorded;
      if (before != null) {
        recorded = next;
      }
    }
    // The driver frees a graph that is being executed when the execution has ended.
    destroy(before == null ? next : before);
    if (before == null) {
      throw closedException("recapture");
    }
  }

  @Override
  public synchronized void close() {
    CudaStream.Recorded last = recorded;
    recorded = null;
    if (last != null) {
      destroy(last);
    }
  }

  private void destroy(CudaStream.Recorded old) {
    device
        .context()
        .call("cuGraphExecDestroy", () -> JCudaDriver.cuGraphExecDestroy(old.executable()));
  }

  private CudaStream.Recorded requireOpen(String what) {
    CudaStream.Recorded now = recorded;
    if (now == null) {
      throw closedException(what);
    }
    return now;
  }

  private static IllegalStateException closedException(String what) {
    return new IllegalStateException(what + " was called on a closed graph");
  }
}
