package io.nvrar.examples.cluster;

import io.nvrar.CollectiveException;
import io.ray.api.Ray;
import org.jspecify.annotations.Nullable;

/** This driver's connection to a running cluster; Ctrl-C ends the process at once. */
public final class RayCluster implements AutoCloseable {
  private final Interruption interruption;
  private final Disconnection end;

  private RayCluster(Interruption interruption, Disconnection end) {
    this.interruption = interruption;
    this.end = end;
  }

  /**
   * Connects.
   *
   * @param address host:port of the cluster's head; null for the property {@code ray.address}, or
   *     for the private cluster of bin/nvrar
   * @throws CollectiveException if there is none, or it does not answer
   */
  public static RayCluster connect(@Nullable String address) {
    if (!ClusterAddress.use(address)) {
      throw new CollectiveException(
          "there is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one");
    }
    if (System.getProperty("ray.logging.level") == null) {
      System.setProperty("ray.logging.level", "WARN");
    }
    Interruption interruption = Interruption.guard();
    try {
      Ray.init();
    } catch (RuntimeException | Error e) {
      interruption.close();
      throw e;
    }
    return new RayCluster(interruption, Disconnection.ofDriver());
  }

  @Override
  public void close() {
    try (interruption) {
      end.close();
    }
  }
}
