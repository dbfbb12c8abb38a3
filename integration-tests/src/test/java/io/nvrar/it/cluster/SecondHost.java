package io.nvrar.it.cluster;

import static org.awaitility.Awaitility.await;

import io.nvrar.tools.soak.SimulatedHosts;
import io.ray.api.Ray;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A second node of a cluster, with the second half of its GPUs. Its processes see another boot id
 * than those of the first node, so the library takes them for those of another host. This needs a
 * process that may make namespaces.
 */
public final class SecondHost implements AutoCloseable {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  /**
   * Its arguments: the cluster's address, the number of GPUs. What {@code ray start --address}
   * does, which refuses to listen on the loopback address only, as the first node does (keeper.py).
   */
  private static final String NODE =
      """
      import signal, sys
      from ray._private.node import Node
      from ray._private.parameter import RayParams
      Node(
          RayParams(
              gcs_address=sys.argv[1], node_ip_address="127.0.0.1", num_cpus=4, num_gpus=int(sys.argv[2]),
              min_worker_port=0, max_worker_port=0, object_store_memory=100_000_000,
              dashboard_agent_listen_port=0),
          head=False, shutdown_at_exit=True, spawn_reaper=True)
      signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
      signal.pause()
      """;

  private final Process node;

  private SecondHost(Process node) {
    this.node = node;
  }

  /** Starts it, and returns once the cluster knows it. This JVM is a driver of the cluster. */
  public static SecondHost start(RayCluster cluster) throws IOException {
    Path directory = Files.createTempDirectory("nvrar-it-hosts.");
    Path venv = Path.of(RayCluster.property("nvrar.ray.venv"));
    int first = cluster.gpus() / 2;
    List<String> command =
        List.of(
            venv.resolve("bin/python").toString(),
            "-c",
            NODE,
            cluster.address(),
            String.valueOf(cluster.gpus() - first));
    ProcessBuilder builder =
        new ProcessBuilder(new SimulatedHosts(directory).on(1, command))
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("log").toFile());
    RayCluster.prepare(builder, venv);
    builder.environment().put("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0");
    if (cluster.hasRealGpus()) {
      builder
          .environment()
          .put(
              "CUDA_VISIBLE_DEVICES",
              IntStream.range(first, cluster.gpus())
                  .mapToObj(String::valueOf)
                  .collect(Collectors.joining(",")));
    }
    long before = nodes();
    SecondHost host = new SecondHost(builder.start());
    try {
      await().atMost(LIMIT).until(() -> nodes() == before + 1 || !host.node.isAlive());
      if (!host.node.isAlive()) {
        throw new IllegalStateException(
            "the second node did not start: " + Files.readString(directory.resolve("log")));
      }
      return host;
    } catch (RuntimeException e) {
      host.close();
      throw e;
    }
  }

  private static long nodes() {
    return Ray.getRuntimeContext().getAllNodeInfo().stream().filter(node -> node.isAlive).count();
  }

  @Override
  public void close() {
    // It ends its own processes.
    node.destroy();
    try {
      if (!node.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
        throw new IllegalStateException("the second node does not stop");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
