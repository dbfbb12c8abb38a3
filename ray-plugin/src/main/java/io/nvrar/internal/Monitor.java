package io.nvrar.internal;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The lock that guards the state received by a channel's thread, and on which other threads wait
 * for changes.
 */
public class Monitor {
  private final Object lock = new Object();

  /** Runs {@code work} under the lock. */
  public <T extends @Nullable Object> T locked(Supplier<T> work) {
    synchronized (lock) {
      return work.get();
    }
  }

  /** Runs {@code work} under the lock, then wakes the waiting threads. */
  public void update(Runnable work) {
    synchronized (lock) {
      work.run();
      lock.notifyAll();
    }
  }

  /**
   * Waits for a condition.
   *
   * @param condition evaluated under the lock
   * @return whether it is true; false if the time was over first
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

  /** {@link #await} without being interruptible; the thread's interrupt flag is kept. */
  public boolean awaitUninterruptibly(BooleanSupplier condition, long deadlineNanos) {
    return Uninterruptibly.await(
        left -> await(condition, deadlineNanos), deadlineNanos - System.nanoTime());
  }
}
