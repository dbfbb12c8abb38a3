package io.nvrar.ray;

import io.nvrar.internal.Uninterruptibly;
import io.ray.api.Ray;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** This process as a driver of a running cluster, for commands that only look. */
public final class RayDriver implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RayDriver.class);
  private static final int CONNECT_MILLIS = 3000;
  private static final Duration END = Duration.ofSeconds(15);

  private RayDriver() {}

  /**
   * Connects. An interrupt does not shorten it.
   *
   * @param address HOST:PORT of the cluster's head; this host must be one of its nodes
   * @throws IllegalArgumentException if no cluster answers there
   */
  public static RayDriver connect(String address) {
    int colon = address.lastIndexOf(':');
    try (Socket socket = new Socket()) {
      int port = Integer.parseInt(address.substring(colon + 1));
      socket.connect(
          new InetSocketAddress(address.substring(0, Math.max(0, colon)), port), CONNECT_MILLIS);
    } catch (IOException | IllegalArgumentException e) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "no Ray cluster answers at %s: %s", address, e.getMessage()),
          e);
    }
    System.setProperty("ray.address", address);
    Ray.init();
    return new RayDriver();
  }

  /** Looks at the members of groups on all nodes, until this driver is closed. */
  public ClusterWatch watch() {
    return new ClusterWatch();
  }

  /** Disconnects; waits at most 15 s for Ray, which an interrupt does not shorten. */
  @Override
  public void close() {
    close(Ray::shutdown);
  }

  static void close(Runnable shutdown) {
    try {
      if (!Uninterruptibly.run("ray-shutdown", shutdown, END)) {
        LOG.debug("Ray.shutdown() still runs");
      }
    } catch (RuntimeException e) {
      LOG.warn("Ray.shutdown() has failed", e); // the commands have looked, and end next
    }
  }
}
