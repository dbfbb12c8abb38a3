package io.nvrar.internal.group;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Daemon;
import io.nvrar.internal.Monitor;
import io.nvrar.internal.wire.GroupSpec;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ThreadFactory;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The failure listeners of a group's user. Each is called once: on a separate thread, because the
 * channel's thread must not wait for user code, or, if it comes after the failure, by the thread
 * that adds it.
 */
final class FailureListeners {
  private static final Logger LOG = LoggerFactory.getLogger(FailureListeners.class);

  private final GroupSpec spec;
  private final int rank;
  private final Monitor monitor;
  private final BooleanSupplier hasFailed;
  private final Supplier<CollectiveException> failure;
  private final ThreadFactory threads;

  // Guarded by the monitor.
  private final List<Consumer<CollectiveException>> waiting = new ArrayList<>();
  private boolean isOver;

  /**
   * @param hasFailed does not block
   * @param failure returns the failure once there is one; may block until the flight record that it
   *     names is written
   */
  FailureListeners(
      GroupSpec spec,
      int rank,
      Monitor monitor,
      BooleanSupplier hasFailed,
      Supplier<CollectiveException> failure) {
    this(
        spec,
        rank,
        monitor,
        hasFailed,
        failure,
        work -> Daemon.of("nvrar-" + spec.name() + "-" + rank + "-failure", work));
  }

  FailureListeners(
      GroupSpec spec,
      int rank,
      Monitor monitor,
      BooleanSupplier hasFailed,
      Supplier<CollectiveException> failure,
      ThreadFactory threads) {
    this.threads = threads;
    this.spec = spec;
    this.rank = rank;
    this.monitor = monitor;
    this.hasFailed = hasFailed;
    this.failure = failure;
  }

  /** Adds a listener, or calls it before it returns if the group has failed. */
  void add(Consumer<CollectiveException> listener) {
    Objects.requireNonNull(listener, "listener");
    boolean isLate =
        monitor.locked(
            () -> {
              boolean failed = hasFailed.getAsBoolean();
              if (!failed && !isOver) {
                waiting.add(listener);
              }
              return failed;
            });
    if (isLate) {
      listener.accept(failure.get());
    }
  }

  void remove(Consumer<CollectiveException> listener) {
    monitor.update(() -> waiting.remove(listener));
  }

  /**
   * There can be no failure any more. Called under the monitor.
   *
   * @throws OutOfMemoryError if there is no thread for the listeners that still wait after a
   *     failure; it may be called again
   */
  void noMoreFailures() {
    if (hasFailed.getAsBoolean()) {
      tellWaiting();
    }
    isOver = true;
    waiting.clear();
  }

  /** The group has failed. Called under the monitor. */
  void failed() {
    try {
      tellWaiting();
    } catch (OutOfMemoryError e) { // the failure itself matters more
      LOG.error(
          "The failure listeners of {} on rank {} are not called yet: {}",
          spec.label(),
          rank,
          e.getMessage());
    }
  }

  /** Starts a thread that calls the listeners; if it throws, they still wait. */
  private void tellWaiting() {
    if (!waiting.isEmpty()) {
      threads.newThread(new Telling(List.copyOf(waiting))).start();
      waiting.clear();
    }
  }

  /** Calls listeners, each once, also if there is no memory for a while. */
  private final class Telling implements Runnable {
    private final List<Consumer<CollectiveException>> told;
    private int next;

    /** Made beforehand, for a thread that has no memory to make it. */
    private final Runnable tell = this::tell;

    Telling(List<Consumer<CollectiveException>> told) {
      this.told = told;
    }

    @Override
    public void run() {
      Daemon.untilDone(tell);
    }

    private void tell() {
      CollectiveException known = failure.get();
      while (next < told.size()) {
        Consumer<CollectiveException> listener = told.get(next++);
        try {
          listener.accept(known);
        } catch (RuntimeException | Error e) {
          LOG.error("A failure listener of {} on rank {} has failed", spec.label(), rank, e);
        }
      }
    }
  }
}
