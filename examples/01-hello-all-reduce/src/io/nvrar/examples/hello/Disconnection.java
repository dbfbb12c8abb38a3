package io.nvrar.examples.hello;

import io.nvrar.CollectiveException;
import io.ray.api.Ray;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The end of a driver's connection to its cluster, which has a limit: Ray waits for the raylet
 * without one, also for a raylet that is stopped or stuck.
 */
public final class Disconnection implements AutoCloseable {

  /** It takes less than a second where the cluster is well. */
  private static final int LIMIT_SECONDS = 15;

  private static final int FAILED = 1;

  private final Thread hook = new Thread(this::limitEnd, "ray-limit");
  private volatile boolean givenUp;

  private Disconnection() {}

  /**
   * Of this driver. From here on, until Ray has shut down, its process ends within 15 s also where
   * a signal ends it, upon which Ray's own hook waits for the raylet; its exit code is 1 if that
   * was too long.
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
    // The process waits for a hook, and so for Ray's, but not for what a hook has started.
    Thread limit =
        new Thread(
            () -> {
              try {
                TimeUnit.SECONDS.sleep(LIMIT_SECONDS);
              } catch (InterruptedException e) {
                // Nobody does that; the end is near all the same.
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
   * @throws CollectiveException if it has not returned within 15 s; the end of this process is then
   *     at once
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
          "Ray did not shut down within %d s: the raylet of this node is stopped or stuck"
              .formatted(LIMIT_SECONDS),
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
      // The process ends already, and so soon enough.
    }
  }
}
