package io.nvrar.internal.member;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** A lock that guards what a channel's thread learns, and on which others wait to learn it too. */
public final class Monitor {
  private final Object lock = new Object();

  /** Under the lock. */
  public <T extends @Nullable Object> T locked(Supplier<T> work) {
    synchronized (lock) {
      return work.get();
    }
  }

  /** Under the lock; whoever waits looks again. */
  public void update(Runnable work) {
    synchronized (lock) {
      work.run();
      lock.notifyAll();
    }
  }

  /**
   * Waits.
   *
   * @param condition looked at under the lock
   * @return whether it is true; false if the time was over before
   */
  public boolean await(BooleanSupplier condition, long deadlineNanos) throws InterruptedException {
    synchronized (lock) {
      while (!condition.getAsBoolean()) {
        long left = deadlineNanos - System.nanoTime();
        if (left <= 0) {
          return false;
        }
        TimeUnit.NANOSECONDS.timedWait(lock, left);
      }
      return true;
    }
  }

  /**
   * {@link #await} for what must have happened, whoever interrupts; the thread stays interrupted.
   */
  void awaitUninterruptibly(BooleanSupplier condition, long deadlineNanos) {
    boolean interrupted = false;
    while (true) {
      try {
        await(condition, deadlineNanos);
        break;
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
