package io.nvrar.internal.binding;

import io.nvrar.internal.Daemon;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Frees a native member. If its work does not end within the library's time limit, it retries on a
 * thread of its own: work of the user that a call is queued behind on a GPU may take minutes, and
 * the member holds a lot of GPU memory.
 */
final class Destruction implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Destruction.class);

  /** Each try takes up to about 10 s, the library's own limit. */
  private static final int TRIES = 60;

  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final String what;
  private final IntSupplier destroy;
  private final int limit;
  private final long pauseNanos;

  /**
   * @param what the name of the member in the log
   * @param destroy calls {@code nvrar_destroy} and returns its status
   */
  Destruction(String what, IntSupplier destroy) {
    this(what, destroy, TRIES, PAUSE_NANOS);
  }

  Destruction(String what, IntSupplier destroy, int limit, long pauseNanos) {
    this.what = what;
    this.destroy = destroy;
    this.limit = limit;
    this.pauseNanos = pauseNanos;
  }

  /** Tries once; further tries are made on another thread. */
  @Override
  public void run() {
    int status = destroy.getAsInt();
    if (status == NativeStatus.OK) {
      return;
    }
    LOG.warn("{} was not freed: {}", what, NativeStatus.exception(status, 0).getMessage());
    if (status != NativeStatus.INTERNAL) {
      return;
    }
    try {
      Daemon.of("nvrar-free", this::tryAgain).start();
    } catch (OutOfMemoryError e) { // no thread can be started
      LOG.warn("{} stays until this process ends: {}", what, e.getMessage());
    }
  }

  private void tryAgain() {
    for (int tried = 1; tried < limit; tried++) {
      LockSupport.parkNanos(this, pauseNanos);
      if (destroy.getAsInt() == NativeStatus.OK) {
        LOG.info("{} is freed now", what);
        return;
      }
    }
    LOG.warn("{} could not be freed in {} attempts; it stays until this process ends", what, limit);
  }
}
