package io.nvrar.it.cluster;

import static org.awaitility.Awaitility.await;

import io.nvrar.it.soak.SimulatedHosts;
import io.ray.api.Ray;
import io.ray.api.id.UniqueId;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * A second node of a cluster, with the second half of its GPUs. Its processes see another boot id
 * than those of the first node, so the library takes them for those of another host. This needs a
 * process that may make namespaces. The node ends with this JVM, however that ends.
 */
public final class SecondHost implements AutoCloseable {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  /**
   * Its arguments: the cluster's address, the number of GPUs. What {@code ray start --address}
   * does, which refuses to listen on the loopback address only, as the first node does (keeper.py).
   * Ends when its standard input does.
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
      sys.stdin.buffer.read()
      """;

  private final Path directory;
  private final Process node;
  private final Set<UniqueId> before;

  private SecondHost(Path directory, Process node, Set<UniqueId> before) {
    this.directory = directory;
    this.node = node;
    this.before = before;
  }

  /** Starts it, and returns once the cluster knows it. This JVM is a driver of the cluster. */
  public static SecondHost start(RayCluster cluster) throws IOException {
    Path directory = Files.createTempDirectory("nvrar-it-hosts.");
    Path venv = Path.of(RayCluster.property("nvrar.ray.venv"));
    List<String> gpus = secondHalf(cluster.gpus(), System.getenv("CUDA_VISIBLE_DEVICES"));
    List<String> command =
        List.of(
            venv.resolve("bin/python").toString(),
            "-c",
            NODE,
            cluster.address(),
            String.valueOf(gpus.size()));
    ProcessBuilder builder =
        new ProcessBuilder(new SimulatedHosts(directory).on(1, command))
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("log").toFile());
    RayCluster.prepare(builder, venv);
    builder.environment().put("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0");
    if (cluster.hasRealGpus()) {
      builder.environment().put("CUDA_VISIBLE_DEVICES", String.join(",", gpus));
    }
    Set<UniqueId> before = nodes();
    SecondHost host = new SecondHost(directory, builder.start(), before);
    try {
      await().atMost(LIMIT).until(() -> host.isKnown() || !host.node.isAlive());
      if (!host.node.isAlive()) {
        throw new IllegalStateException("the second node has ended");
      }
      return host;
    } catch (RuntimeException e) {
      e.addSuppressed(new IllegalStateException(Files.readString(directory.resolve("log"))));
      host.close();
      throw e;
    }
  }

  /**
   * The names of GPUs for CUDA_VISIBLE_DEVICES.
   *
   * @param visible what it is for this process; null if that sees all
   */
  private static List<String> secondHalf(int gpus, @Nullable String visible) {
    List<String> all =
        visible == null
            ? IntStream.range(0, gpus).mapToObj(String::valueOf).toList()
            : Arrays.asList(visible.split(","));
    return all.subList(gpus / 2, gpus);
  }

  private boolean isKnown() {
    return !before.containsAll(nodes());
  }

  private static Set<UniqueId> nodes() {
    return Ray.getRuntimeContext().getAllNodeInfo().stream()
        .filter(node -> node.isAlive)
        .map(node -> node.nodeId)
        .collect(Collectors.toCollection(HashSet::new));
  }

  @Override
  public void close() {
    // It ends its own processes.
    node.destroy();
    try {
      if (!node.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
        node.descendants().forEach(ProcessHandle::destroyForcibly);
        node.destroyForcibly();
        throw new IllegalStateException("the second node does not stop");
      }
      // The next test must not place actors there.
      await().atMost(LIMIT).until(() -> !isKnown());
      try (var files = Files.list(directory)) {
        for (Path file : files.toList()) {
          Files.delete(file);
        }
      }
      Files.delete(directory);
    } catch (InterruptedException e) {
      node.destroyForcibly();
      Thread.currentThread().interrupt();
    } catch (IOException e) {
      throw new IllegalStateException("the second node's files cannot be deleted", e);
    }
  }
}
