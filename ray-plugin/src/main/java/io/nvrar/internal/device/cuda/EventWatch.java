package io.nvrar.internal.device.cuda;

import io.nvrar.internal.Daemon;
import io.nvrar.internal.device.async.EnqueuedCalls;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import jcuda.driver.CUevent;
import jcuda.driver.CUresult;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/**
 * Completes the stages of a device's events, on one thread, which runs while there are stages and
 * for a second longer. It polls the events in turn, so no stage waits for another event.
 */
final class EventWatch {
  private static final long SHORTEST_PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(50);
  private static final long LONGEST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final GpuContext context;
  private final ThreadFactory threads;

  // Both guarded by this.
  private final List<Watched> added = new ArrayList<>();
  private @Nullable Thread thread;

  EventWatch(GpuContext context) {
    this(context, work -> Daemon.of("nvrar-events-" + context.ordinal(), work));
  }

  EventWatch(GpuContext context, ThreadFactory threads) {
    this.context = context;
    this.threads = threads;
  }

  /**
   * A stage that completes when an event has happened.
   *
   * @param event recorded at the place that the stage waits for, and not recorded again
   * @param done run once, before the stage completes: the event is needed no more
   * @param calls those of the stream on which it was recorded; the array is not changed
   */
  CompletionStage<Void> watch(CUevent event, Runnable done, EnqueuedCalls[] calls) {
    Watched watched = new Watched(context, event, done, calls);
    if (!watched.completesNow()) {
      try {
        add(watched);
      } catch (RuntimeException | Error e) { // for example if no thread can be started
        watched.complete(
            new IllegalStateException(
                String.format(
                    Locale.ROOT,
                    "no thread can be started to complete the stages of %s's events: %s",
                    context,
                    e.getMessage()),
                e));
      }
    }
    return watched.stage.minimalCompletionStage();
  }

  private synchronized void add(Watched watched) {
    Thread running = thread;
    if (running == null) {
      running = threads.newThread(work());
      running.start(); // the thread waits for this lock before it reads any state
      thread = running;
    }
    added.add(watched);
    notifyAll();
    LockSupport.unpark(running);
  }

  /** The work of a thread, with all that it needs to abandon the stages when it has no memory. */
  private Runnable work() {
    List<Watched> all = new ArrayList<>();
    Throwable[] thrown = {null};
    Runnable abandon = () -> abandon(all, thrown[0]);
    return () -> run(all, thrown, abandon);
  }

  private void run(List<Watched> all, Throwable[] thrown, Runnable abandon) {
    try {
      // Without relaxed mode, querying an event would break captures of other threads in global
      // mode.
      int[] mode = {CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED};
      context.call(
          "cuThreadExchangeStreamCaptureMode",
          () -> JCudaDriver.cuThreadExchangeStreamCaptureMode(mode));
      long pause = SHORTEST_PAUSE_NANOS;
      while (takeAdded(all)) {
        boolean completed = all.removeIf(Watched::completesNow);
        pause = completed ? SHORTEST_PAUSE_NANOS : Math.min(2 * pause, LONGEST_PAUSE_NANOS);
        // A dependent action may have set the flag, which would cut the pauses short.
        Thread.interrupted();
        if (!all.isEmpty()) {
          LockSupport.parkNanos(this, pause);
        }
      }
    } catch (Throwable e) {
      thrown[0] = e;
      Daemon.untilDone(abandon); // completes the stages exceptionally
    }
  }

  /** Moves added stages to {@code all}; returns false if there have been none for a while. */
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
        // A dependent action interrupted this thread; that must not end it.
      }
    }
    return !added.isEmpty();
  }

  // Nothing else would complete them.
  private void abandon(List<Watched> all, Throwable cause) {
    synchronized (this) {
      thread = null;
      all.addAll(added);
      added.clear();
    }
    for (Watched watched : all) {
      watched.complete(cause);
    }
  }

  private static final class Watched {
    private final GpuContext context;
    private final CUevent event;
    private final Runnable done;

    /**
     * The groups with calls before the event. Kept here, because the stream forgets a closed group
     * once its failure has been thrown to some caller, who need not be the one that waits for this
     * stage.
     */
    private final EnqueuedCalls[] calls;

    private final CompletableFuture<Void> stage = new CompletableFuture<>();
    private boolean isOver;

    Watched(GpuContext context, CUevent event, Runnable done, EnqueuedCalls[] calls) {
      this.context = context;
      this.event = event;
      this.done = done;
      this.calls = calls;
    }

    /** Completes the stage if the event has happened, or can no longer be queried. */
    boolean completesNow() {
      Throwable failure;
      try {
        int status = context.status(() -> JCudaDriver.cuEventQuery(event));
        if (status == CUresult.CUDA_ERROR_NOT_READY) {
          return false;
        }
        if (status != CUresult.CUDA_SUCCESS) {
          failure = DriverFailure.of("cuEventQuery", context, status);
        } else if (awaitsReason()) {
          return false; // retried later, so that the other stages do not wait
        } else {
          failure = failureOfCalls();
        }
      } catch (Throwable e) { // even an Error concerns this stage only
        failure = e;
      }
      complete(failure);
      return true;
    }

    private boolean awaitsReason() {
      for (EnqueuedCalls one : calls) {
        if (one.awaitsReason()) {
          return true;
        }
      }
      return false;
    }

    private @Nullable RuntimeException failureOfCalls() {
      for (EnqueuedCalls one : calls) {
        RuntimeException failure = one.failure();
        if (failure != null) {
          return failure;
        }
      }
      return null;
    }

    void complete(@Nullable Throwable failure) {
      if (isOver) {
        return;
      }
      isOver = true;
      done.run();
      if (failure == null) {
        stage.complete(null);
      } else {
        stage.completeExceptionally(failure);
      }
    }
  }
}
