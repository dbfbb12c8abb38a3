package io.nvrar.internal.device.cuda;

import java.util.Locale;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * What is special about the driver's two default streams. The legacy stream is one for all threads:
 * it and every stream that was not created as a non-blocking one wait for each other, so it cannot
 * be used while one of these captures. The per-thread stream is a blocking one, and its handle
 * means another stream on every thread.
 */
final class DefaultStream {
  private static final long LEGACY = 1;
  private static final long PER_THREAD = 2;

  private final GpuContext context;
  private final CUstream legacy = Handles.stream(LEGACY);

  /** Whose stream it is; null for the legacy stream. */
  private final @Nullable Thread owner;

  private DefaultStream(GpuContext context, @Nullable Thread owner) {
    this.context = context;
    this.owner = owner;
  }

  /** The handle by which the driver knows a stream whatever it was compiled for: 0 is legacy. */
  static long explicit(long handle) {
    return handle == 0 ? LEGACY : handle;
  }

  /** The default stream that a handle means on this thread; null for any other stream. */
  static @Nullable DefaultStream of(GpuContext context, long handle) {
    if (handle == LEGACY) {
      return new DefaultStream(context, null);
    }
    return handle == PER_THREAD ? new DefaultStream(context, platformThread()) : null;
  }

  private static Thread platformThread() {
    Thread thread = Thread.currentThread();
    if (isVirtual(thread)) {
      throw new IllegalArgumentException(
          "the default stream of a virtual thread cannot be wrapped, it is that of whichever platform thread runs it; create a stream");
    }
    return thread;
  }

  private static boolean isVirtual(Thread thread) {
    try {
      return (boolean) Thread.class.getMethod("isVirtual").invoke(thread);
    } catch (ReflectiveOperationException e) {
      return false; // Java before 21
    }
  }

  boolean isLegacy() {
    return owner == null;
  }

  /** Throws if the handle would mean the stream of another thread. */
  void requireThread(String what) {
    if (owner != null && owner != Thread.currentThread()) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s was called by the thread %s on %s; every thread has another one",
              what,
              Thread.currentThread().getName(),
              this));
    }
  }

  /** Throws if a call with this stream would be one with another, or would break a capture. */
  void requireUsable(String what) {
    requireThread(what);
    if (isLegacy() && breaksCaptures()) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s was called on %s while a blocking stream captures, which it would break",
              what,
              this));
    }
  }

  /** The exception for what no default stream is used for. */
  IllegalArgumentException refused(String what) {
    return new IllegalArgumentException(
        String.format(
            Locale.ROOT,
            "%s cannot be on %s; use a stream of createStream, and events between the two",
            what,
            this));
  }

  /**
   * Waits for what any thread has submitted, unless that would break a capture. The legacy stream
   * waits for every thread's, and an event on it is the only way to wait for another thread's.
   */
  void settle() {
    if (breaksCaptures()) {
      return;
    }
    CUevent event = new CUevent();
    context.call(
        "cuEventCreate",
        () -> JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DISABLE_TIMING));
    try {
      context.call("cuEventRecord", () -> JCudaDriver.cuEventRecord(event, legacy));
      context.call("cuEventSynchronize", () -> JCudaDriver.cuEventSynchronize(event));
    } finally {
      context.call("cuEventDestroy", () -> JCudaDriver.cuEventDestroy(event));
    }
  }

  // This call of the driver is the only one with the legacy stream that breaks no capture.
  private boolean breaksCaptures() {
    int status = context.status(() -> JCudaDriver.cuStreamIsCapturing(legacy, new int[1]));
    if (status != CUresult.CUDA_SUCCESS && status != CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
      throw DriverFailure.of("cuStreamIsCapturing", context, status);
    }
    return status != CUresult.CUDA_SUCCESS;
  }

  @Override
  public String toString() {
    return owner == null
        ? "the legacy default stream of " + context
        : "the default stream of the thread " + owner.getName() + " on " + context;
  }
}
