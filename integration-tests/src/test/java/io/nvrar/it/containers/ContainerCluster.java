package io.nvrar.it.containers;

import com.github.dockerjava.api.DockerClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.Container.ExecResult;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.MountableFile;

/**
 * Two hosts of one Ray cluster, each a container with {@value #GPUS} pretended GPUs, on a network
 * of their own. Only the worker has the CPUs that {@code bin/nvrar decode} wants for its actors. A
 * resource named after the host lets a test choose where its actors run.
 */
final class ContainerCluster implements AutoCloseable {

  static final String HEAD = "head";
  static final String WORKER = "worker";
  static final int GPUS = 4;

  /** Where the shipped model is, on both hosts. */
  static final String MODEL = "/opt/nvrar/model";

  private static final String JARS = "/opt/nvrar/lib";

  private static final String ADDRESS = HEAD + ":6379";

  /** However this JVM ends, no container runs for longer. */
  private static final int LIFE_SECONDS = 900;

  private static final int DRIVER_SECONDS = 120;

  private static final Path HOME = Path.of(property("nvrar.home")).toAbsolutePath().normalize();

  private final Network network;
  private final GenericContainer<?> head;
  private final GenericContainer<?> worker;

  @SuppressWarnings("resource") // close() ends what the fluent setters return
  private ContainerCluster() {
    network =
        Network.builder()
            .createNetworkCmdModifier(command -> command.withLabels(Leftovers.label()))
            .build();
    head = host(HEAD, 2, "--head", "--port=6379", "--include-dashboard=false");
    worker = host(WORKER, GPUS, "--address=" + ADDRESS);
  }

  static ContainerCluster start() {
    Leftovers.remove(docker());
    ContainerCluster cluster = new ContainerCluster();
    try {
      cluster.head.start();
      cluster.worker.start();
      return cluster;
    } catch (RuntimeException | Error e) {
      try {
        cluster.close();
      } catch (RuntimeException failed) {
        e.addSuppressed(failed);
      }
      throw e;
    }
  }

  static DockerClient docker() {
    return DockerClientFactory.instance().client();
  }

  static String image() {
    return property("nvrar.docker.image");
  }

  private GenericContainer<?> host(String name, int cpus, String... role) {
    List<String> command =
        new ArrayList<>(
            List.of("timeout", String.valueOf(LIFE_SECONDS), "ray", "start", "--block"));
    command.addAll(List.of(role));
    command.addAll(
        List.of(
            "--num-cpus=" + cpus,
            "--num-gpus=" + GPUS,
            "--resources={\"" + name + "\": " + GPUS + "}",
            "--object-store-memory=100000000",
            "--disable-usage-stats"));
    GenericContainer<?> container =
        new GenericContainer<>(image())
            .withNetwork(network)
            .withNetworkAliases(name)
            .withLabels(Leftovers.label())
            .withCreateContainerCmdModifier(create -> create.withHostName(name))
            .withSharedMemorySize(256L << 20)
            .withCommand(command.toArray(String[]::new))
            .waitingFor(
                Wait.forLogMessage(".*Ray runtime started.*", 1)
                    .withStartupTimeout(Duration.ofSeconds(60)));
    for (Path jar : jars()) {
      container.withCopyFileToContainer(
          MountableFile.forHostPath(jar), JARS + "/" + jar.getFileName());
    }
    return container.withCopyFileToContainer(MountableFile.forHostPath(model()), MODEL);
  }

  /** The shipped model, on this machine. */
  static Path model() {
    return HOME.resolve("examples/09-llama-decode/model/tiny-english");
  }

  /** What {@code bin/nvrar} runs with, and the tests' actors. */
  private static List<Path> jars() {
    Path target = HOME.resolve("examples/target");
    List<Path> jars = new ArrayList<>();
    jars.add(Path.of(property("nvrar.test.jar")));
    jars.add(Path.of(property("nvrar.examples.jar")));
    try (Stream<Path> libraries = Files.list(target.resolve("lib"))) {
      // Ray brings a logger of its own.
      libraries
          .filter(path -> !path.getFileName().toString().startsWith("slf4j-simple-"))
          .forEach(jars::add);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return jars;
  }

  /**
   * Runs a driver of this cluster in the head, until it ends.
   *
   * @param command a main class and its arguments
   */
  ExecResult driver(String... command) throws IOException, InterruptedException {
    List<String> line =
        new ArrayList<>(List.of("timeout", "-k", "5", String.valueOf(DRIVER_SECONDS), "java"));
    line.addAll(List.of(property("nvrar.jvm.options").split(" ")));
    line.addAll(
        List.of(
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dray.address=" + ADDRESS,
            "-Dray.logging.level=WARN",
            "-Dray.job.code-search-path=" + JARS,
            "-cp",
            "/opt/ray_dist.jar:" + JARS + "/*"));
    line.addAll(List.of(command));
    return head.execInContainer(line.toArray(String[]::new));
  }

  /** The GCS's host and port, as the hosts know them. */
  String address() {
    return ADDRESS;
  }

  @Override
  public void close() {
    try (network;
        head;
        worker) {
      // Closed in reverse.
    }
  }

  private static String property(String name) {
    return Objects.requireNonNull(System.getProperty(name), name);
  }
}
