package io.nvrar.internal;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Waits that an interrupt does not shorten, for closes: they free what others wait for. The
 * thread's interrupt flag is kept.
 */
public final class Uninterruptibly {

  private Uninterruptibly() {}

  /** A wait with a limit. */
  @FunctionalInterface
  public interface Wait {
    /**
     * Waits for at most {@code nanos}, which may be negative.
     *
     * @return whether what it waits for has happened
     */
    boolean await(long nanos) throws InterruptedException;
  }

  /** Waits for at most {@code nanos}; returns whether what it waits for has happened. */
  public static boolean await(Wait wait, long nanos) {
    long deadline = System.nanoTime() + nanos;
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return wait.await(deadline - System.nanoTime());
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * Runs work on a thread of its own and waits for its end: for calls of Ray, which wait more than
   * a minute for a GCS that does not answer.
   *
   * @return whether it has ended within {@code limit}; if not, it goes on, and its result is lost
   * @throws RuntimeException what {@code work} throws, and any {@link Error}
   */
  public static boolean run(String threadName, Runnable work, Duration limit) {
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Thread thread =
        Daemon.of(
            threadName,
            () -> {
              try {
                work.run();
              } catch (RuntimeException | Error e) {
                thrown.set(e);
              }
            });
    thread.start();
    boolean ended =
        await(
            nanos -> {
              TimeUnit.NANOSECONDS.timedJoin(thread, nanos);
              return !thread.isAlive();
            },
            limit.toNanos());
    Throwable reason = thrown.get();
    if (reason instanceof RuntimeException unchecked) {
      throw unchecked;
    }
    if (reason instanceof Error error) {
      throw error;
    }
    return ended;
  }
}
