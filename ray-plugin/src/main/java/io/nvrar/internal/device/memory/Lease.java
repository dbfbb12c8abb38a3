package io.nvrar.internal.device.memory;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A use count for a native resource, which is freed when it is closed and no longer in use. A close
 * at the wrong time is so an exception and does not crash the process. Thread-safe; allocates
 * nothing.
 */
public final class Lease {
  private static final Logger LOG = LoggerFactory.getLogger(Lease.class);

  /** The bit of {@link #uses} that means closed; the bits below it count the uses. */
  private static final long CLOSED = 1L << 62;

  private final Runnable free;
  private final AtomicLong uses = new AtomicLong();

  /**
   * Creates a lease of a resource that {@code free} frees. It runs once: in {@link #close}, or in
   * the last {@link #release} after it. {@link #close} throws its exceptions; {@link #release} logs
   * them.
   */
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

  /**
   * Undoes one {@link #retain}. Meant for finally blocks: a failure to free the resource is logged
   * and not thrown, because this caller has not closed it, and its own exception and cleanup matter
   * more.
   */
  public void release() {
    if (uses.decrementAndGet() == CLOSED) {
      try {
        free.run();
      } catch (RuntimeException e) {
        LOG.warn(
            "A resource that was closed while in use could not be freed when its use ended", e);
      }
    }
  }

  /**
   * Frees the resource, now or when the last use has ended; throws the exceptions of freeing it
   * now. Idempotent.
   */
  public void close() {
    long before = uses.getAndUpdate(now -> now | CLOSED);
    if (before == 0) {
      free.run();
    }
  }
}
