package io.nvrar.device.memory;

import java.util.concurrent.atomic.AtomicLong;

/**
 * A native resource that is released when it is closed and nobody uses it any more, so that one
 * closed at the wrong time is an exception and not the end of the process. Safe for use by many
 * threads; allocates nothing.
 */
public final class Lease {
  /** Bit of {@link #uses} that says closed; the bits below count the uses. */
  private static final long CLOSED = 1L << 62;

  private final Runnable free;
  private final AtomicLong uses = new AtomicLong();

  /** Of a resource that {@code free} releases; it is run once, by the last who leaves. */
  public Lease(Runnable free) {
    this.free = free;
  }

  /** Whether {@link #close} was called. */
  public boolean isClosed() {
    return (uses.get() & CLOSED) != 0;
  }

  /** Keeps the resource until {@link #release}; false if it is closed. */
  public boolean retain() {
    long now;
    do {
      now = uses.get();
      if ((now & CLOSED) != 0) {
        return false;
      }
    } while (!uses.compareAndSet(now, now + 1));
    return true;
  }

  /** Undoes one {@link #retain}. */
  public void release() {
    if (uses.decrementAndGet() == CLOSED) {
      free.run();
    }
  }

  /** Releases the resource, now or when the last use has ended. Idempotent. */
  public void close() {
    long before = uses.getAndUpdate(now -> now | CLOSED);
    if (before == 0) {
      free.run();
    }
  }
}
