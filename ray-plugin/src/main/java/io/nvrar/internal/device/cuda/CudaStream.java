package io.nvrar.internal.device.cuda;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.internal.device.async.AsyncStream;
import io.nvrar.internal.device.async.EnqueuedCalls;
import io.nvrar.internal.device.host.HostDevice;
import io.nvrar.internal.device.memory.BufferMemory;
import io.nvrar.internal.device.memory.ElementBuffer;
import io.nvrar.internal.device.memory.Lease;
import java.util.Arrays;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.CUstreamCaptureStatus;
import jcuda.driver.CUstream_flags;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * A stream of a GPU, created here or by other code. Streams created here do not synchronize with
 * others, not even with the legacy default stream.
 */
public final class CudaStream implements AsyncStream {
  private final CudaDevice device;
  private final GpuContext context;
  private final CUstream stream;
  private final long handle;
  private final Lease lease;

  /** Null for a stream that somebody has created. */
  private final @Nullable DefaultStream defaultStream;

  /**
   * Held while a capture begins and ends, while {@link #settle} waits (waiting for a stream that
   * captures breaks the capture) and while the stream is closed.
   */
  private final Object captureLock = new Object();

  /**
   * Held while a capture begins or is joined, and while {@link #enqueueUnrecorded} enqueues; never
   * while anything waits. Taken after {@link #captureLock}.
   */
  private final Object enqueueLock = new Object();

  /** Whether {@link #record} captures; guarded by {@link #captureLock}. */
  private boolean recording;

  /**
   * Whether {@link #retire} has closed the stream and its user has not. Written under {@link
   * #captureLock}, together with closing the lease.
   */
  private volatile boolean retired;

  /**
   * The groups whose calls were enqueued on this stream. Copy-on-write: replaced under this
   * stream's lock.
   */
  private volatile EnqueuedCalls[] carried = {};

  /** Those of them whose failure was already thrown by this stream. */
  private final Set<EnqueuedCalls> thrown = ConcurrentHashMap.newKeySet();

  private CudaStream(CudaDevice device, CUstream stream, Lease lease) {
    this.device = device;
    this.stream = stream;
    this.lease = lease;
    context = device.context();
    handle = Handles.handle(stream);
    defaultStream = DefaultStream.of(context, handle);
  }

  static CudaStream create(CudaDevice device) {
    GpuContext context = device.context();
    CUstream stream = new CUstream();
    context.call(
        "cuStreamCreate",
        () -> JCudaDriver.cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING));
    Lease lease =
        new Lease(() -> context.call("cuStreamDestroy", () -> JCudaDriver.cuStreamDestroy(stream)));
    return new CudaStream(device, stream, lease);
  }

  /** A stream that its owner destroys, or one of the default streams, of this thread. */
  public static CudaStream foreign(CudaDevice device, long handle) {
    CUstream stream = Handles.stream(DefaultStream.explicit(handle));
    return new CudaStream(device, stream, new Lease(() -> {}));
  }

  /**
   * The JCuda object, for users.
   *
   * @param what was called, for the message if the stream is closed
   */
  public CUstream jcuda(String what) {
    requireOpen(what);
    return stream;
  }

  @Override
  public CudaDevice device() {
    return device;
  }

  @Override
  public long handle() {
    requireOpen("handle");
    return handle;
  }

  @Override
  public boolean isCapturing() {
    if (isLegacy() || !lease.retain()) {
      return false; // the driver does not let the legacy stream capture
    }
    try {
      if (defaultStream != null) {
        defaultStream.requireThread("isCapturing");
      }
      int[] status = new int[1];
      context.call("cuStreamIsCapturing", () -> JCudaDriver.cuStreamIsCapturing(stream, status));
      return status[0] != CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE;
    } finally {
      lease.release();
    }
  }

  private boolean isLegacy() {
    return defaultStream != null && defaultStream.isLegacy();
  }

  @Override
  public void carry(EnqueuedCalls calls) {
    if (defaultStream != null) {
      throw defaultStream.refused("a group's call");
    }
    if (!lease.retain()) {
      throw new IllegalStateException(
          "the stream is closed, a call needs an open one on " + device);
    }
    try {
      Capture.note(context, handle, calls);
    } catch (RuntimeException e) {
      lease.release();
      throw e;
    }
    for (EnqueuedCalls one : carried) {
      if (one == calls) {
        return;
      }
    }
    synchronized (this) {
      carried =
          Stream.concat(
                  Arrays.stream(carried).filter(one -> one != calls && !isSpent(one)),
                  Stream.of(calls))
              .toArray(EnqueuedCalls[]::new);
    }
  }

  @Override
  public void release() {
    lease.release();
  }

  @Override
  public boolean isClosed() {
    return lease.isClosed();
  }

  /** Throws the failure of a group whose calls were enqueued on this stream. */
  void throwIfFailed() {
    for (EnqueuedCalls calls : carried) {
      if (calls.isOver()) {
        forget(calls); // the failure is thrown now, so it need not be thrown again
      }
      markThrown(calls);
    }
  }

  /** The groups whose calls were enqueued on this stream so far. The array must not be changed. */
  EnqueuedCalls[] carried() {
    return carried;
  }

  /**
   * Like {@link #throwIfFailed}, but once for each group: a copy does not belong to the failed
   * group, but may read data that it wrote.
   */
  void throwIfNewlyFailed() {
    for (EnqueuedCalls calls : carried) {
      if (!thrown.contains(calls)) {
        markThrown(calls);
      }
    }
    if (retired) {
      device.forget(this); // no failure is left to throw
    }
  }

  private void markThrown(EnqueuedCalls calls) {
    try {
      calls.throwIfFailed();
    } catch (RuntimeException e) {
      addThrown(calls);
      throw e;
    }
  }

  // Only for calls that are still carried: others would never be removed from the set.
  private synchronized void addThrown(EnqueuedCalls calls) {
    if (Arrays.asList(carried).contains(calls)) {
      thrown.add(calls);
    }
  }

  private static boolean isSpent(EnqueuedCalls calls) {
    if (!calls.isOver()) {
      return false;
    }
    try {
      calls.throwIfFailed();
      return true;
    } catch (RuntimeException e) {
      return false; // its failure has not been thrown
    }
  }

  private synchronized void forget(EnqueuedCalls calls) {
    carried = Arrays.stream(carried).filter(one -> one != calls).toArray(EnqueuedCalls[]::new);
    thrown.remove(calls);
  }

  @Override
  public void copy(DeviceBuffer source, DeviceBuffer target) {
    requireReachable(source);
    requireReachable(target);
    ElementBuffer.requireFits(source, target);
    BufferMemory.retain(source, target);
    try {
      long bytes = source.sizeBytes();
      if (bytes == 0) {
        requireOpen("copy");
      } else {
        submit(
            "copy",
            "cuMemcpyAsync",
            on ->
                JCudaDriver.cuMemcpyAsync(
                    Handles.pointer(target.address()),
                    Handles.pointer(source.address()),
                    bytes,
                    on));
      }
    } finally {
      BufferMemory.release(source, target);
    }
  }

  @Override
  public void waitFor(DeviceEvent event) {
    CudaEvent ours = device.requireEvent(event, "waitFor");
    synchronized (captureLock) {
      synchronized (enqueueLock) {
        ours.use(
            "waitFor",
            of ->
                submit(
                    "waitFor",
                    "cuStreamWaitEvent",
                    on -> JCudaDriver.cuStreamWaitEvent(on, of, 0)));
      }
    }
  }

  @Override
  public void synchronize() {
    if (lease.retain()) {
      try {
        requireUsable("synchronize");
        if (isCapturing()) {
          throw new IllegalStateException(
              "synchronize was called on a stream that is capturing; what it records runs when the graph is launched");
        }
        context.call("cuStreamSynchronize", JCudaDriver::cuStreamSynchronize, stream);
      } finally {
        lease.release();
      }
    } else if (!retired) { // everything submitted to a retired stream has been executed
      throw closedException("synchronize");
    }
    throwIfFailed();
  }

  @Override
  public void close() {
    synchronized (captureLock) {
      if (lease.isClosed()) {
        retired = false; // now closed by its user, too
        device.forget(this);
        return;
      }
      try {
        if (recording) {
          recording = false;
          dropCapture();
        }
      } finally {
        device.forget(this);
        lease.close();
      }
    }
  }

  @Override
  public boolean isIdle() {
    if (defaultStream != null) {
      return true; // no group has calls on it, and another thread could not ask
    }
    synchronized (captureLock) {
      if (!lease.retain()) {
        return true;
      }
      try {
        return isCapturing()
            || context.status(() -> JCudaDriver.cuStreamQuery(stream))
                != CUresult.CUDA_ERROR_NOT_READY;
      } finally {
        lease.release();
      }
    }
  }

  @Override
  public void retire() {
    if (!lease.retain()) {
      return;
    }
    try {
      synchronized (captureLock) {
        if (recording) {
          recording = false;
          dropCapture();
        }
      }
      // Outside the lock, so that a concurrent close does not wait.
      if (!isCapturing()) {
        context.call("cuStreamSynchronize", JCudaDriver::cuStreamSynchronize, stream);
      }
    } finally {
      synchronized (captureLock) { // the user may be closing it concurrently
        retired = !lease.isClosed();
        lease.close();
      }
      lease.release();
      if (Arrays.stream(carried).allMatch(one -> thrown.contains(one) || isSpent(one))) {
        device.forget(this);
      }
    }
  }

  /**
   * Waits for submitted work, unless that would break a capture. Does nothing if the stream is
   * closed.
   */
  void settle() {
    synchronized (captureLock) {
      if (!lease.retain()) {
        return;
      }
      try {
        if (defaultStream != null) {
          defaultStream.settle();
        } else if (!isCapturing()) {
          context.call("cuStreamSynchronize", JCudaDriver::cuStreamSynchronize, stream);
        }
      } finally {
        lease.release();
      }
    }
  }

  /**
   * Calls the driver with this stream, and keeps it open until the call has returned.
   *
   * @param what was called, for the message if the stream is closed
   * @param function of the driver
   */
  void submit(String what, String function, StreamCall call) {
    retain(what);
    try {
      context.call(function, call, stream);
    } finally {
      lease.release();
    }
  }

  /**
   * Keeps the stream open for a call to the driver; {@link #release} must follow if this returns.
   * Allocates nothing.
   *
   * @param what was called, for the message if the stream is closed
   * @return the handle
   */
  public long retain(String what) {
    if (!lease.retain()) {
      throw closedException(what);
    }
    boolean isUsable = false;
    try {
      requireUsable(what);
      isUsable = true;
      return handle;
    } finally {
      if (!isUsable) {
        lease.release();
      }
    }
  }

  /**
   * Enqueues work that no capture may record, by driver calls that do not block. Meanwhile the
   * stream stays open, and no capture begins.
   *
   * @param what was called, for the message if the stream is closed or captures
   */
  void enqueueUnrecorded(String what, Consumer<CUstream> calls) {
    if (!lease.retain()) {
      throw closedException(what);
    }
    try {
      synchronized (enqueueLock) {
        requireUsable(what);
        requireRunning(what);
        calls.accept(stream);
      }
    } finally {
      lease.release();
    }
  }

  /** Throws if the stream is closed or captures. */
  void requireRunning(String what) {
    requireOpen(what);
    if (isCapturing()) {
      throw new IllegalStateException(ElementBuffer.notRecorded(what));
    }
  }

  /** A call of the driver with a stream. */
  @FunctionalInterface
  interface StreamCall {
    /** As {@link DriverCall#run}. */
    int run(CUstream stream);
  }

  /** The result of a capture: the instantiated graph, and the groups whose calls are in it. */
  @SuppressWarnings("ArrayRecordComponent") // never changed
  record Recorded(CUgraphExec executable, StreamCall launch, EnqueuedCalls[] calls) {
    Recorded(CUgraphExec executable, EnqueuedCalls[] calls) {
      this(executable, on -> JCudaDriver.cuGraphLaunch(executable, on), calls);
    }
  }

  /** Captures the work that {@code work} submits. */
  Recorded record(Runnable work) {
    Capture capture = beginCapture();
    CUgraph graph;
    try {
      work.run();
      graph = endCapture();
    } catch (Throwable e) {
      abandon(e);
      throw e;
    } finally {
      capture.end();
    }
    try {
      CUgraphExec executable = new CUgraphExec();
      context.call(
          "cuGraphInstantiate", () -> JCudaDriver.cuGraphInstantiate(executable, graph, 0L));
      return new Recorded(executable, capture.calls());
    } finally {
      destroy(graph);
    }
  }

  private Capture beginCapture() {
    synchronized (captureLock) {
      requireOpen("capture");
      if (defaultStream != null) {
        throw defaultStream.refused("a capture");
      }
      if (isCapturing()) {
        throw new IllegalStateException(
            "capture was called on a stream that is already capturing; captures of one stream do not nest");
      }
      // Relaxed mode: other driver calls of the work, such as allocations, are not part of the
      // capture and must not break it, and any thread may end it.
      synchronized (enqueueLock) {
        submit(
            "capture",
            "cuStreamBeginCapture",
            on ->
                JCudaDriver.cuStreamBeginCapture(
                    on, CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED));
      }
      recording = true;
      try {
        return Capture.begin(context, handle);
      } catch (Throwable e) {
        abandon(e);
        throw e;
      }
    }
  }

  private CUgraph endCapture() {
    synchronized (captureLock) {
      if (!recording) {
        throw new IllegalStateException(
            "the stream was closed while it was capturing; what it had recorded is dropped");
      }
      recording = false;
      CUgraph graph = new CUgraph();
      submit("capture", "cuStreamEndCapture", on -> JCudaDriver.cuStreamEndCapture(on, graph));
      return graph;
    }
  }

  private void abandon(Throwable reason) {
    synchronized (captureLock) {
      if (recording) {
        recording = false;
        try {
          dropCapture();
        } catch (RuntimeException e) {
          reason.addSuppressed(e);
        }
      }
    }
  }

  // The graph is null if the capture was broken; then there is nothing to destroy.
  private void dropCapture() {
    CUgraph graph = new CUgraph();
    int status = context.status(() -> JCudaDriver.cuStreamEndCapture(stream, graph));
    if (status == 0) {
      destroy(graph);
    }
  }

  private void destroy(CUgraph graph) {
    context.call("cuGraphDestroy", () -> JCudaDriver.cuGraphDestroy(graph));
  }

  private void requireReachable(DeviceBuffer buffer) {
    if (buffer.device() != device && !HostDevice.isPinned(buffer)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a copy on a stream of %s needs memory of %s or memory that allocatePinned gave, not %s",
              device,
              device,
              buffer));
    }
  }

  private void requireOpen(String what) {
    if (lease.isClosed()) {
      throw closedException(what);
    }
    if (defaultStream != null) {
      defaultStream.requireThread(what);
    }
  }

  /** Throws if this is a default stream that this thread may not use now. */
  void requireUsable(String what) {
    if (defaultStream != null) {
      defaultStream.requireUsable(what);
    }
  }

  private static IllegalStateException closedException(String what) {
    return new IllegalStateException(what + " was called on a closed stream");
  }

  @Override
  public String toString() {
    return defaultStream != null
        ? defaultStream.toString()
        : "stream 0x" + Long.toHexString(handle) + " of " + device;
  }
}
