package io.nvrar.it.cluster;

import io.nvrar.Backend;
import io.nvrar.device.Devices;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.ray.RayActorGroup;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A private cluster of one node, with {@value #PRETENDED_GPUS} pretended GPUs or with all that the
 * machine has, and with this JVM as its driver. It is kept by the same process that keeps the
 * launcher's clusters, so it ends with this JVM, however that ends.
 */
public final class RayCluster implements AutoCloseable {

  public static final int PRETENDED_GPUS = 8;

  /** Of all drivers, so that one finds the named actors of another. */
  static final String NAMESPACE = "nvrar-it";

  private static final int STOP_SECONDS = 30;

  /** For every worker, so that actors made without {@link RayActorGroup} run too. */
  private static final List<String> JVM_OPTIONS =
      List.of(
          "--add-opens=java.base/java.lang=ALL-UNNAMED",
          "--add-opens=java.base/java.math=ALL-UNNAMED",
          "--add-opens=java.base/java.util=ALL-UNNAMED",
          "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
          "--add-opens=java.base/java.net=ALL-UNNAMED",
          "--add-opens=java.base/java.text=ALL-UNNAMED",
          "--enable-native-access=ALL-UNNAMED",
          "-XX:+UseSerialGC",
          "-XX:TieredStopAtLevel=1",
          "-XX:-UsePerfData",
          "-Xmx256m");

  private final Process keeper;
  private final String address;
  private final boolean hasRealGpus;
  private @Nullable RayActorGroup<Probe> probes;

  private RayCluster(Process keeper, String address, boolean hasRealGpus) {
    this.keeper = keeper;
    this.address = address;
    this.hasRealGpus = hasRealGpus;
  }

  /**
   * Starts a cluster and connects to it.
   *
   * @param realGpus whether its GPUs are those of the machine, which must have some
   */
  static RayCluster start(boolean realGpus) {
    try {
      if (realGpus) {
        Devices.count(Backend.CUDA); // or says why there is none
      }
      Path venv = Path.of(property("nvrar.ray.venv"));
      // Below /tmp, because the names of Ray's sockets in it may have 107 characters.
      Path directory = Files.createTempDirectory(Path.of("/tmp"), "nvrar-it.");
      List<String> command = new ArrayList<>();
      command.addAll(List.of(venv.resolve("bin/python").toString(), property("nvrar.keeper")));
      command.addAll(List.of("--directory=" + directory, "--ray=" + venv.resolve("bin/ray")));
      command.addAll(List.of("--deadline=90", "--keep-logs=" + property("nvrar.test.work")));
      if (!realGpus) {
        command.add("--pretended-gpus=" + PRETENDED_GPUS);
      }
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.redirectError(Redirect.INHERIT);
      prepare(builder, venv);
      Process keeper = builder.start();
      return new RayCluster(keeper, awaitAddress(keeper), realGpus).connect();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The environment of a process that starts nodes. */
  static void prepare(ProcessBuilder builder, Path venv) {
    builder.environment().remove("RAY_ADDRESS");
    builder.environment().put("RAY_USAGE_STATS_ENABLED", "0");
    // The raylet starts its Java workers with the first java on its path.
    builder
        .environment()
        .merge(
            "PATH",
            Path.of(System.getProperty("java.home"), "bin") + ":" + venv.resolve("bin"),
            (path, ours) -> ours + ":" + path);
  }

  /** Ends at the latest with the keeper's own deadline. */
  private static String awaitAddress(Process keeper) throws IOException {
    BufferedReader words = keeper.inputReader(StandardCharsets.UTF_8);
    String word = words.readLine();
    if (word == null || !word.startsWith("ready ")) {
      throw new IllegalStateException("the Ray cluster did not start: " + word);
    }
    return word.substring("ready ".length());
  }

  private RayCluster connect() {
    driverProperties()
        .forEach(
            property -> {
              int equals = property.indexOf('=');
              System.setProperty(property.substring(0, equals), property.substring(equals + 1));
            });
    Ray.init();
    return this;
  }

  boolean hasRealGpus() {
    return hasRealGpus;
  }

  /** Real or pretended. */
  public int gpus() {
    return hasRealGpus ? Devices.count(Backend.CUDA) : PRETENDED_GPUS;
  }

  /** The GCS's host and port. */
  public String address() {
    return address;
  }

  /** {@code name=value} of the system properties that make a JVM a driver of this cluster. */
  List<String> driverProperties() {
    List<String> properties = new ArrayList<>();
    properties.add("ray.address=" + address);
    // Else a driver looks for the node at an address that other machines can reach.
    properties.add("ray.node-ip=" + address.substring(0, address.lastIndexOf(':')));
    properties.add("ray.job.namespace=" + NAMESPACE);
    properties.add("ray.logging.level=WARN");
    properties.add("ray.job.code-search-path=" + codeSearchPath());
    for (int i = 0; i < JVM_OPTIONS.size(); i++) {
      properties.add("ray.job.jvm-options." + i + "=" + JVM_OPTIONS.get(i));
    }
    return properties;
  }

  /** The options of {@link #driverProperties}' JVM itself. */
  static List<String> jvmOptions() {
    return JVM_OPTIONS;
  }

  /** The jars of this JVM's class path: Ray's workers load classes from jars only. */
  private static String codeSearchPath() {
    return Stream.concat(
            Stream.of(property("nvrar.test.jar")),
            Arrays.stream(classPath().split(File.pathSeparator))
                .filter(path -> path.endsWith(".jar") && !path.endsWith("ray_dist.jar")))
        .collect(Collectors.joining(":"));
  }

  /** The class path of the tests, absolute; Surefire hides it behind a jar of its own. */
  static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** Four actors for the tests that leave them alive and free of groups. */
  public synchronized List<ActorHandle<Probe>> probes() {
    if (probes == null) {
      probes = RayActorGroup.builder(Probe::new).gpus(1).create(4);
    }
    return probes.handles();
  }

  @Override
  public void close() throws IOException {
    String leftByDriver = DriverFiles.of(ProcessHandle.current().pid());
    Ray.shutdown();
    keeper.getOutputStream().close();
    DriverFiles.delete(leftByDriver);
    try {
      if (!keeper.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the Ray cluster does not stop");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  static String property(String name) {
    return Objects.requireNonNull(System.getProperty(name), name);
  }
}
