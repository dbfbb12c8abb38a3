package io.nvrar.examples.cluster;

import io.nvrar.CollectiveException;
import io.ray.api.Ray;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Ends a driver's connection to its cluster, with a time limit: Ray itself waits for the raylet
 * without one, even if the raylet is stopped or stuck.
 */
public final class Disconnection implements AutoCloseable {

  /** With a healthy cluster it takes less than a second. */
  private static final int LIMIT_SECONDS = 15;

  private static final int FAILED = 1;

  private final Thread hook = new Thread(this::limitEnd, "ray-limit");
  private volatile boolean givenUp;

  private Disconnection() {}

  /**
   * Creates one for this driver. From now on, until Ray has shut down, the process also ends within
   * 15 s if a signal ends it, although Ray's own shutdown hook waits for the raylet; the exit code
   * is 1 if the limit was reached.
   */
  public static Disconnection ofDriver() {
    Disconnection disconnection = new Disconnection();
    Runtime.getRuntime().addShutdownHook(disconnection.hook);
    return disconnection;
  }

  private void limitEnd() {
    if (givenUp) {
      Runtime.getRuntime().halt(FAILED);
    }
    // The process waits for shutdown hooks, and so for Ray's, but not for threads that a hook has
    // started.
    Thread limit =
        new Thread(
            () -> {
              try {
                TimeUnit.SECONDS.sleep(LIMIT_SECONDS);
              } catch (InterruptedException e) {
                // Never interrupted; the process ends soon in any case.
              }
              Runtime.getRuntime().halt(FAILED);
            },
            "ray-limit");
    limit.setDaemon(true);
    limit.start();
  }

  /**
   * Calls {@code Ray.shutdown()}.
   *
   * @throws CollectiveException if it has not returned within 15 s; this process then ends without
   *     waiting for Ray
   */
  @Override
  public void close() {
    FutureTask<Void> shutdown = new FutureTask<>(Ray::shutdown, null);
    Thread thread = new Thread(shutdown, "ray-shutdown");
    thread.setDaemon(true);
    thread.start();
    try {
      shutdown.get(LIMIT_SECONDS, TimeUnit.SECONDS);
      removeHook();
    } catch (TimeoutException e) {
      givenUp = true;
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "Ray did not shut down within %d s: the raylet of this node is stopped or stuck",
              LIMIT_SECONDS),
          e);
    } catch (ExecutionException e) {
      throw new CollectiveException("Ray did not shut down: " + e.getCause(), e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CollectiveException("interrupted while Ray shut down", e);
    }
  }

  private void removeHook() {
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException e) {
      // The process is already ending.
    }
  }
}
