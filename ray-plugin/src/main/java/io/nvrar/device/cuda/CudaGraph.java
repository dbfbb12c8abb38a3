package io.nvrar.device.cuda;

import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import jcuda.driver.CUgraphExec;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** A graph that is ready to be launched. The driver lets one thread at a time touch it. */
final class CudaGraph implements DeviceGraph {
  private final CudaDevice device;

  // Guarded by this; null when closed.
  private @Nullable CUgraphExec executable;

  CudaGraph(CudaDevice device, CUgraphExec executable) {
    this.device = device;
    this.executable = executable;
  }

  @Override
  public void launch(DeviceStream stream) {
    CudaStream on = device.requireStream(stream, "launching a graph");
    synchronized (this) {
      CUgraphExec now = requireOpen("launch");
      on.submit("submit", "cuGraphLaunch", of -> JCudaDriver.cuGraphLaunch(now, of));
    }
  }

  @Override
  public void recapture(DeviceStream stream, Runnable work) {
    CudaStream on = device.requireStream(stream, "recapture");
    synchronized (this) {
      requireOpen("recapture");
    }
    // Not under the lock: the work may launch this graph.
    CUgraphExec recorded = on.record(work);
    CUgraphExec before;
    synchronized (this) {
      before = executable;
      if (before != null) {
        executable = recorded;
      }
    }
    // One that is being executed goes when it has been.
    destroy(before == null ? recorded : before);
    if (before == null) {
      throw closedException("recapture");
    }
  }

  @Override
  public synchronized void close() {
    CUgraphExec last = executable;
    executable = null;
    if (last != null) {
      destroy(last);
    }
  }

  private void destroy(CUgraphExec old) {
    device.context().call("cuGraphExecDestroy", () -> JCudaDriver.cuGraphExecDestroy(old));
  }

  private CUgraphExec requireOpen(String what) {
    CUgraphExec now = executable;
    if (now == null) {
      throw closedException(what);
    }
    return now;
  }

  private static IllegalStateException closedException(String what) {
    return new IllegalStateException(what + " was called on a closed graph");
  }
}
