package io.nvrar.device.cuda;

import io.nvrar.device.memory.Lease;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import jcuda.driver.CUevent;
import jcuda.driver.CUresult;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * Completes the stages of a device's events, by one thread for all of them, which is there while
 * there are any and for a second longer. It asks for each in turn: no event waits for another's.
 */
final class EventWatch {
  private static final long SHORTEST_PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(50);
  private static final long LONGEST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GpuContext context;

  // Both guarded by this.
  private final List<Watched> added = new ArrayList<>();
  private @Nullable Thread thread;

  EventWatch(GpuContext context) {
    this.context = context;
  }

  /**
   * A stage that completes when an event has happened.
   *
   * @param event recorded last where the stage is to wait for, and not recorded again
   * @param lease of the event, retained once, which is released when it has happened
   * @param stream on which it was recorded
   */
  CompletionStage<Void> watch(CUevent event, Lease lease, CudaStream stream) {
    Watched watched = new Watched(context, event, lease, stream);
    if (!watched.completesNow()) {
      add(watched);
    }
    return watched.stage.minimalCompletionStage();
  }

  private synchronized void add(Watched watched) {
    added.add(watched);
    Thread running = thread;
    if (running == null) {
      running = new Thread(this::run, "nvrar-events-" + context.ordinal());
      running.setDaemon(true);
      thread = running;
      running.start();
    } else {
      notifyAll();
      LockSupport.unpark(running);
    }
  }

  private void run() {
    List<Watched> all = new ArrayList<>();
    try {
      // Asking for an event would break captures of other threads that forbid it to all.
      int[] mode = {CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED};
      context.call(
          "cuThreadExchangeStreamCaptureMode",
          () -> JCudaDriver.cuThreadExchangeStreamCaptureMode(mode));
      long pause = SHORTEST_PAUSE_NANOS;
      while (takeAdded(all)) {
        boolean completed = all.removeIf(Watched::completesNow);
        pause = completed ? SHORTEST_PAUSE_NANOS : Math.min(2 * pause, LONGEST_PAUSE_NANOS);
        Thread.interrupted(); // a dependent may have done so, and a pause would be none
        if (!all.isEmpty()) {
          LockSupport.parkNanos(this, pause);
        }
      }
    } catch (Throwable e) {
      abandon(all, e);
      if (e instanceof Error error) {
        throw error;
      }
    }
  }

  /** Moves what was added to {@code all}; false if there has been nothing for a while. */
  private synchronized boolean takeAdded(List<Watched> all) {
    if (all.isEmpty() && !awaitAdded()) {
      thread = null;
      return false;
    }
    all.addAll(added);
    added.clear();
    return true;
  }

  private synchronized boolean awaitAdded() {
    long end = System.nanoTime() + IDLE_NANOS;
    for (long left = IDLE_NANOS; added.isEmpty() && left > 0; left = end - System.nanoTime()) {
      try {
        TimeUnit.NANOSECONDS.timedWait(this, left);
      } catch (InterruptedException e) {
        // A dependent that ran here has done it; it is no reason to end.
      }
    }
    return !added.isEmpty();
  }

  // Nobody would complete them.
  private void abandon(List<Watched> all, Throwable cause) {
    synchronized (this) {
      thread = null;
      all.addAll(added);
      added.clear();
    }
    for (Watched watched : all) {
      watched.fail(cause);
    }
  }

  private static final class Watched {
    private final GpuContext context;
    private final CUevent event;
    private final Lease lease;
    private final CudaStream stream;
    private final CompletableFuture<Void> stage = new CompletableFuture<>();

    Watched(GpuContext context, CUevent event, Lease lease, CudaStream stream) {
      this.context = context;
      this.event = event;
      this.lease = lease;
      this.stream = stream;
    }

    /** Completes the stage if the event has happened, or if nobody can tell any more. */
    boolean completesNow() {
      RuntimeException failure;
      try {
        int status = context.status(() -> JCudaDriver.cuEventQuery(event));
        if (status == CUresult.CUDA_ERROR_NOT_READY) {
          return false;
        }
        failure =
            status == CUresult.CUDA_SUCCESS
                ? stream.failure()
                : DriverFailure.of("cuEventQuery", context, status);
      } catch (RuntimeException e) {
        failure = e;
      }
      if (failure == null) {
        lease.release();
        stage.complete(null);
      } else {
        fail(failure);
      }
      return true;
    }

    void fail(Throwable cause) {
      lease.release();
      stage.completeExceptionally(cause);
    }
  }
}
