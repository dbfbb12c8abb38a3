package io.nvrar.examples.llama;

import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Work of an actor on a thread of its own, so that the actor's Ray thread stays free to report
 * progress. One piece of work runs at a time.
 */
final class BackgroundWork {
  private @Nullable Thread thread;
  private @Nullable Throwable failure;

  /** Starts work; {@link #isDone} throws its exceptions. */
  synchronized void start(String name, Runnable work) {
    if (thread != null && thread.isAlive()) {
      throw new IllegalStateException(thread.getName() + " is still running");
    }
    failure = null;
    thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (RuntimeException | Error e) {
                fail(e);
              }
            },
            name);
    // A daemon, so that an actor that is told to end does not wait for it.
    thread.setDaemon(true);
    thread.start();
  }

  /** Waits at most some milliseconds; returns whether the work has completed. */
  boolean isDone(long millis) throws InterruptedException {
    Thread running;
    synchronized (this) {
      running = thread;
    }
    if (running == null) {
      return true;
    }
    if (millis > 0) {
      TimeUnit.MILLISECONDS.timedJoin(running, millis);
    }
    if (running.isAlive()) {
      return false;
    }
    throwFailure();
    return true;
  }

  private synchronized void fail(Throwable cause) {
    failure = cause;
  }

  private synchronized void throwFailure() {
    if (failure instanceof RuntimeException exception) {
      throw exception;
    }
    if (failure instanceof Error error) {
      throw error;
    }
  }
}
