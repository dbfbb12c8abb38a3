package io.nvrar.examples.hello;

import io.nvrar.CollectiveException;
import io.ray.api.Ray;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The end of a driver's connection to its cluster. */
public final class Disconnection {

  /** It takes less than a second where the cluster is well. */
  private static final int LIMIT_SECONDS = 15;

  private Disconnection() {}

  /**
   * Calls {@code Ray.shutdown()}, which waits for the raylet without a limit: also for one that is
   * stopped or stuck.
   *
   * @throws CollectiveException if it has not returned within 15 s; the end of this process is then
   *     at once, because Ray's own shutdown hook would wait likewise
   */
  public static void shutDown() {
    FutureTask<Void> shutdown = new FutureTask<>(Ray::shutdown, null);
    Thread thread = new Thread(shutdown, "ray-shutdown");
    thread.setDaemon(true);
    thread.start();
    try {
      shutdown.get(LIMIT_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(1)));
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
}
