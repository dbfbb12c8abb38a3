package io.nvrar.internal.device.cuda;

import io.nvrar.internal.device.memory.ElementBuffer.Part;
import io.nvrar.internal.device.memory.HostView;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * Copies between a GPU's memory and Java in stream order. They pass through pieces of pinned
 * memory, which are kept and reused. A piece is reused for another stream only when its last copy
 * has been executed, so a copy never waits for another stream.
 */
public final class StreamStaging {
  private static final int PIECE_BYTES = 1 << 20;

  /**
   * How many full pieces of one stream may be in flight before a further copy waits for the first
   * (back-pressure).
   */
  private static final int PIECES_OF_A_STREAM = 4;

  /** Suits every type, and keeps two copies from writing to one cache line. */
  private static final int ALIGNMENT = 256;

  private final GpuContext context;

  /**
   * The pieces that no thread is filling or emptying, in the order of their last copies. Guarded by
   * this.
   */
  private final List<Piece> pieces = new ArrayList<>();

  private boolean prepared; // guarded by this

  StreamStaging(GpuContext context) {
    this.context = context;
  }

  /**
   * Allocates the first pieces, before the first stream exists: the driver may block an allocation
   * of pinned memory until the work on the GPU has ended, and that may be a call that waits for
   * work behind the copy.
   */
  public synchronized void prepare() {
    if (prepared) {
      return;
    }
    List<Piece> first = new ArrayList<>();
    long slab =
        PinnedMemory.allocate(
            context, (long) PIECES_OF_A_STREAM * PIECE_BYTES, "bytes for copies on streams");
    try {
      for (int i = 0; i < PIECES_OF_A_STREAM; i++) {
        first.add(new Piece(context, slab + (long) i * PIECE_BYTES));
      }
    } catch (Throwable e) {
      first.forEach(Piece::destroy);
      PinnedMemory.free(context, slab);
      throw e;
    }
    pieces.addAll(first);
    prepared = true;
  }

  /** Enqueues filling the device's memory with the values that {@code part} provides now. */
  void write(CudaStream on, long address, int unitBytes, int n, Part part) {
    on.requireRunning("copyFrom");
    for (int done = 0; done < n; ) {
      int length = Math.min(n - done, PIECE_BYTES / unitBytes);
      Piece piece = take(on, length * unitBytes);
      try {
        part.copy(piece.view, piece.used / unitBytes, done, length);
        long target = address + (long) done * unitBytes;
        piece.enqueue(on, "copyFrom", piece.next(), target, length * unitBytes);
      } finally {
        give(piece);
      }
      done += length;
    }
  }

  /** The opposite of {@link #write}; waits for the stream, and throws failures of its work. */
  void read(CudaStream on, long address, int unitBytes, int n, Part part) {
    on.requireRunning("copyTo");
    int most = PIECE_BYTES / unitBytes;
    Deque<Piece> ahead = new ArrayDeque<>();
    try {
      int asked = 0;
      for (int done = 0; done < n; ) {
        // While the first piece is emptied, the device already fills a second.
        while (ahead.size() < 2 && asked < n) {
          int length = Math.min(n - asked, most);
          Piece piece = take(on, length * unitBytes);
          ahead.add(piece);
          piece.from = piece.used;
          long source = address + (long) asked * unitBytes;
          piece.enqueue(on, "copyTo", source, piece.next(), length * unitBytes);
          asked += length;
        }
        Piece piece = ahead.element();
        int length = Math.min(n - done, most);
        piece.await();
        on.throwIfFailed();
        part.copy(piece.view, piece.from / unitBytes, done, length);
        give(ahead.remove());
        done += length;
      }
    } finally {
      ahead.forEach(this::give);
    }
  }

  /** Takes a piece with room for this many bytes; this thread owns it until {@link #give}. */
  private Piece take(CudaStream on, int bytes) {
    Piece oldest = takeFree(on, bytes);
    if (oldest == null) {
      return another(on);
    }
    if (PIECE_BYTES - oldest.used < bytes) {
      try {
        oldest.await();
      } catch (RuntimeException e) {
        give(oldest);
        throw e;
      }
      oldest.used = 0;
    }
    return oldest;
  }

  // A piece that has room, or that must be waited for; null if a new one should be allocated.
  private synchronized @Nullable Piece takeFree(CudaStream on, int bytes) {
    Piece first = null;
    int own = 0;
    for (Iterator<Piece> all = pieces.iterator(); all.hasNext(); ) {
      Piece piece = all.next();
      if (piece.isDone()) {
        piece.used = 0;
        piece.owner = on;
      }
      if (piece.owner == on) {
        own++;
        first = first == null ? piece : first;
        if (PIECE_BYTES - piece.used >= bytes) {
          all.remove();
          return piece;
        }
      }
    }
    if (first == null || own < PIECES_OF_A_STREAM) {
      return null;
    }
    pieces.remove(first);
    return first;
  }

  private Piece another(CudaStream on) {
    long address = PinnedMemory.allocate(context, PIECE_BYTES, "bytes for copies on streams");
    try {
      Piece piece = new Piece(context, address);
      piece.owner = on;
      return piece;
    } catch (Throwable e) {
      PinnedMemory.free(context, address);
      throw e;
    }
  }

  private synchronized void give(Piece piece) {
    if (!piece.lost) {
      pieces.add(piece);
    }
  }

  private static final class Piece {
    private final GpuContext context;
    private final CUevent executed = new CUevent();
    private final long address;
    private final HostView view;

    /** The stream whose copies used it last. */
    private @Nullable CudaStream owner;

    /** The number of leading bytes used by copies that may still be in flight. */
    private int used;

    /** The offset of the last copy to Java. */
    private int from;

    /** Whether a copy may be in flight whose end cannot be determined. */
    private boolean lost;

    Piece(GpuContext context, long address) {
      this.context = context;
      this.address = address;
      CUevent event = executed;
      context.call(
          "cuEventCreate",
          () -> JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DISABLE_TIMING));
      view = new HostView(address, PIECE_BYTES);
    }

    void destroy() {
      context.call("cuEventDestroy", () -> JCudaDriver.cuEventDestroy(executed));
    }

    /** The address of the first byte that no copy uses. */
    long next() {
      return address + used;
    }

    void enqueue(CudaStream on, String what, long source, long target, int bytes) {
      on.enqueueUnrecorded(
          what,
          queue -> {
            context.call(
                "cuMemcpyAsync",
                stream ->
                    JCudaDriver.cuMemcpyAsync(
                        Handles.pointer(target), Handles.pointer(source), bytes, stream),
                queue);
            lost = true;
            context.call(
                "cuEventRecord", stream -> JCudaDriver.cuEventRecord(executed, stream), queue);
            lost = false;
          });
      used = Math.min(PIECE_BYTES, (used + bytes + ALIGNMENT - 1) & -ALIGNMENT);
    }

    boolean isDone() {
      int status = context.status(() -> JCudaDriver.cuEventQuery(executed));
      if (status != CUresult.CUDA_SUCCESS && status != CUresult.CUDA_ERROR_NOT_READY) {
        throw DriverFailure.of("cuEventQuery", context, status);
      }
      return status == CUresult.CUDA_SUCCESS;
    }

    void await() {
      context.call("cuEventSynchronize", () -> JCudaDriver.cuEventSynchronize(executed));
    }
  }
}
