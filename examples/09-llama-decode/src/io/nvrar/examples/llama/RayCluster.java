package io.nvrar.examples.llama;

import io.nvrar.examples.hello.Disconnection;
import io.nvrar.examples.llama.weights.ModelException;
import io.ray.api.Ray;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import org.jspecify.annotations.Nullable;

/** This driver's connection to a running cluster. */
final class RayCluster implements AutoCloseable {
  private static final int CONNECT_MILLIS = 3000;

  private final Interruption interruption;
  private final Disconnection end;

  private RayCluster(Interruption interruption, Disconnection end) {
    this.interruption = interruption;
    this.end = end;
  }

  /**
   * Connects.
   *
   * @param address host:port of the cluster's head; null for the property {@code ray.address}
   */
  static RayCluster connect(@Nullable String address) {
    String target = address == null ? System.getProperty("ray.address", "") : address;
    // Without an address Ray would start a cluster, and at the end stop every cluster on this host.
    if (target.isEmpty()) {
      throw new ModelException(
          "There is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one.");
    }
    int colon = target.lastIndexOf(':');
    try (Socket socket = new Socket()) {
      int port = Integer.parseInt(target.substring(colon + 1));
      socket.connect(
          new InetSocketAddress(target.substring(0, Math.max(0, colon)), port), CONNECT_MILLIS);
    } catch (IOException | IllegalArgumentException e) {
      throw new ModelException(
          "No Ray cluster answers at " + target + ": " + e.getMessage() + ".", e);
    }
    System.setProperty("ray.address", target);
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
