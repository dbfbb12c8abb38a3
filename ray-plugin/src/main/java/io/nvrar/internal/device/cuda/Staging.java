package io.nvrar.internal.device.cuda;

import io.nvrar.internal.device.memory.ElementBuffer.Part;
import io.nvrar.internal.device.memory.HostView;
import jcuda.driver.CUstream;
import jcuda.driver.CUstream_flags;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * Blocking copies between a GPU's memory and Java. They pass through pinned memory in pieces, so
 * that no heap array has to be pinned, and use a stream of their own instead of the legacy default
 * stream, which synchronizes with others and breaks their captures. One copy at a time.
 */
final class Staging {
  private static final int BYTES = 4 << 20;

  private final GpuContext context;

  // Guarded by this; created on first use and kept.
  private @Nullable Lane lane;

  Staging(GpuContext context) {
    this.context = context;
  }

  /** Fills memory of the device, piece by piece, by {@code part}. */
  synchronized void write(long address, int unitBytes, int n, Part part) {
    Lane open = open();
    for (int done = 0; done < n; ) {
      int length = Math.min(n - done, BYTES / unitBytes);
      part.copy(open.view, 0, done, length);
      open.copy(open.address, address + (long) done * unitBytes, (long) length * unitBytes);
      done += length;
    }
  }

  /** The opposite of {@link #write}. */
  synchronized void read(long address, int unitBytes, int n, Part part) {
    Lane open = open();
    for (int done = 0; done < n; ) {
      int length = Math.min(n - done, BYTES / unitBytes);
      open.copy(address + (long) done * unitBytes, open.address, (long) length * unitBytes);
      part.copy(open.view, 0, done, length);
      done += length;
    }
  }

  private Lane open() {
    Lane open = lane;
    if (open == null) {
      open = new Lane(context);
      lane = open;
    }
    return open;
  }

  private static final class Lane {
    private final GpuContext context;
    private final CUstream stream = new CUstream();
    private final long address;
    private final HostView view;

    Lane(GpuContext context) {
      this.context = context;
      address = PinnedMemory.allocate(context, BYTES, "bytes for copies");
      view = new HostView(address, BYTES);
      context.call(
          "cuStreamCreate",
          () -> JCudaDriver.cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING));
    }

    /** Copies between the two sides and waits for it. */
    void copy(long from, long to, long bytes) {
      context.call(
          "cuMemcpyAsync",
          () ->
              JCudaDriver.cuMemcpyAsync(Handles.pointer(to), Handles.pointer(from), bytes, stream));
      context.call("cuStreamSynchronize", () -> JCudaDriver.cuStreamSynchronize(stream));
    }
  }
}
