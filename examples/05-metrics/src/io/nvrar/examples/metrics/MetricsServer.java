package io.nvrar.examples.metrics;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.nvrar.CollectiveGroup;
import io.nvrar.micrometer.GroupMetrics;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Serves the metrics of this process's member of a group to Prometheus, at {@code /metrics}. It
 * listens on the loopback address unless it is given another one: there is no authentication, and
 * the names of groups are to be seen. A request that has not come after 5 s is dropped. Close it
 * with the group.
 */
public final class MetricsServer implements AutoCloseable {
  /** The JDK's server reads each request in a thread of this pool, as slowly as it comes. */
  private static final int THREADS = 4;

  /** So a client that sends half a request gives its thread back. */
  private static final String LONGEST_REQUEST_SECONDS = "5";

  private static final String CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
  private final GroupMetrics metrics;
  private final HttpServer server;
  private final ExecutorService threads =
      Executors.newFixedThreadPool(
          THREADS,
          work -> {
            Thread daemon = new Thread(work, "metrics");
            daemon.setDaemon(true);
            return daemon;
          });

  /**
   * Serves on the loopback address.
   *
   * @param port 0 for any that is free
   */
  public static MetricsServer start(CollectiveGroup group, int port) throws IOException {
    return start(group, new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
  }

  /** Serves on an address of this host. */
  public static MetricsServer start(CollectiveGroup group, InetSocketAddress address)
      throws IOException {
    limitRequests();
    return new MetricsServer(group, HttpServer.create(address, 0));
  }

  private MetricsServer(CollectiveGroup group, HttpServer server) {
    this.server = server;
    metrics = new GroupMetrics(group);
    metrics.bindTo(registry);
    server.createContext("/metrics", this::answer);
    server.setExecutor(threads);
    server.start();
  }

  // The JDK's server has no limit by default, and reads these when the first one is created.
  private static void limitRequests() {
    for (String limit : List.of("maxReqTime", "maxRspTime")) {
      String property = "sun.net.httpserver." + limit;
      if (System.getProperty(property) == null) {
        System.setProperty(property, LONGEST_REQUEST_SECONDS);
      }
    }
  }

  /** The port at which it listens. */
  public int port() {
    return server.getAddress().getPort();
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] text = registry.scrape().getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", CONTENT_TYPE);
      exchange.sendResponseHeaders(200, text.length);
      exchange.getResponseBody().write(text);
    }
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
    metrics.close();
    registry.close();
  }
}
