package io.nvrar.internal;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The library's threads. An error can hit any of them at any allocation: the heap, the native
 * memory and the limit of threads belong to the whole process, and the application may have used
 * them up. Therefore the root of every thread catches everything, and work that must not be left
 * undone goes through {@link #untilDone}.
 */
public final class Daemon {
  private static final Logger LOG = LoggerFactory.getLogger(Daemon.class);

  private static final long FIRST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long LONGEST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long LIMIT_NANOS = TimeUnit.MINUTES.toNanos(10);

  private Daemon() {}

  /** Creates a daemon thread, which the caller starts. What {@code work} throws is logged. */
  public static Thread of(String name, Runnable work) {
    // Loads the class that makes pauses. Here, because it needs memory: where the caller has none,
    // it
    // learns so, but a new thread would end without having begun.
    LockSupport.parkNanos(1);
    Thread thread = new Thread(() -> run(work), name);
    thread.setDaemon(true);
    return thread;
  }

  private static void run(Runnable work) {
    try {
      work.run();
    } catch (Throwable e) {
      logEnded(e);
    }
  }

  /**
   * Repeats {@code work}, which must be idempotent, until it returns, for at most 10 minutes. It
   * makes pauses of up to a second, in which the application may free memory. Allocates nothing
   * itself. The thread's interrupt flag is cleared, because it would cut the pauses short.
   */
  public static void untilDone(Runnable work) {
    long end = System.nanoTime() + LIMIT_NANOS;
    long pause = FIRST_PAUSE_NANOS;
    boolean logged = false;
    while (true) {
      try {
        work.run();
        return;
      } catch (Throwable e) {
        if (System.nanoTime() - end > 0) {
          logUndone(e);
          return;
        }
        if (!logged) {
          logged = true;
          logAgain(e);
        }
      }
      pause(pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE_NANOS);
    }
  }

  private static void pause(long nanos) {
    Thread.interrupted();
    LockSupport.parkNanos(nanos);
  }

  // Each with its text within the try: the first use of a literal needs memory, and an error that
  // leaves untilDone ends the thread before it has done what it must do at its end. The log itself
  // needs memory, too, and so would adding its error to the other one.

  private static void logEnded(Throwable e) {
    try {
      LOG.error("A thread was ended by an error", e);
    } catch (Throwable ignored) {
      return;
    }
  }

  private static void logAgain(Throwable e) {
    try {
      LOG.error("What a thread has to do at its end is tried again", e);
    } catch (Throwable ignored) {
      return;
    }
  }

  private static void logUndone(Throwable e) {
    try {
      LOG.error("What a thread had to do at its end could not be done within 10 minutes", e);
    } catch (Throwable ignored) {
      return;
    }
  }
}
