package io.nvrar.internal.device.memory;

import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A native resource that is released when it is closed and nobody uses it any more, so that one
 * closed at the wrong time is an exception and not the end of the process. Safe for use by many
 * threads; allocates nothing.
 */
public final class Lease {
  private static final Logger LOG = LoggerFactory.getLogger(Lease.class);

  /** Bit of {@link #uses} that says closed; the bits below count the uses. */
  private static final long CLOSED = 1L << 62;

  private final Runnable free;
  private final AtomicLong uses = new AtomicLong();

  /**
   * Of a resource that {@code free} releases. It is run once: by {@link #close}, or by the last
   * {@link #release} after it. What it throws goes on to whoever closes, and into the log where a
   * use was the last.
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
   * Undoes one {@link #retain}. Made for finally blocks: that the resource cannot be freed is said
   * in the log and not thrown, for this caller has not closed it, and its own exception and what it
   * still has to undo matter more.
   */
  public void release() {
    if (uses.decrementAndGet() == CLOSED) {
      try {
        free.run();
      } catch (RuntimeException e) {
        LOG.warn("What was closed while it was in use could not be freed when its use ended", e);
      }
    }
  }

  /**
   * Releases the resource, now or when the last use has ended; throws what releasing it now throws.
   * Idempotent.
   */
  public void close() {
    long before = uses.getAndUpdate(now -> now | CLOSED);
    if (before == 0) {
      free.run();
    }
  }
}
