package io.nvrar.it.containers;

import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.model.AccessMode;
import com.github.dockerjava.api.model.Bind;
import com.github.dockerjava.api.model.Capability;
import com.github.dockerjava.api.model.ContainerNetwork;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.api.model.Network.Ipam;
import com.github.dockerjava.api.model.Volume;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.Container.ExecResult;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.lifecycle.Startables;
import org.testcontainers.utility.MountableFile;

/**
 * The hosts of one Ray cluster, each a container, on a network of their own. A worker has {@value
 * #GPUS} pretended GPUs and as many CPUs; the head has none, or fewer CPUs than {@code bin/nvrar
 * decode} wants for its actors. A resource named after the host lets a test choose where its actors
 * run.
 */
final class ContainerCluster implements AutoCloseable {

  static final String HEAD = "head";
  static final String WORKER = "worker1";
  static final int GPUS = 4;

  /** Where the shipped model is, on all hosts. */
  static final String MODEL = "/opt/nvrar/model";

  /** A directory of {@value #SMALL_MIB} MiB, on all hosts. */
  static final String SMALL = "/small";

  private static final int SMALL_MIB = 32;

  private static final String JARS = "/opt/nvrar/lib";

  private static final String ADDRESS = HEAD + ":6379";

  /** However this JVM ends, no container runs for longer. */
  private static final int LIFE_SECONDS = 3_600;

  private static final int DRIVER_SECONDS = 170;

  private static final Path HOME = Path.of(property("nvrar.home")).toAbsolutePath().normalize();

  private final Network network;
  private final boolean actorsOnHead;
  private final Map<String, GenericContainer<?>> hosts = new LinkedHashMap<>();

  @SuppressWarnings("resource") // close() ends what the fluent setters return
  private ContainerCluster(int workers, boolean actorsOnHead) {
    // With a range of its own a container can have its address again after it was disconnected.
    long pid = ProcessHandle.current().pid();
    String range = String.format(Locale.ROOT, "10.%d.%d.0/24", 128 + pid / 256 % 64, pid % 256);
    network =
        Network.builder()
            .createNetworkCmdModifier(
                command ->
                    command
                        .withIpam(new Ipam().withConfig(new Ipam.Config().withSubnet(range)))
                        .withLabels(Leftovers.label()))
            .build();
    this.actorsOnHead = actorsOnHead;
    hosts.put(HEAD, newHead());
    IntStream.rangeClosed(1, workers)
        .mapToObj(ContainerCluster::worker)
        .forEach(name -> hosts.put(name, newWorker(name)));
  }

  static ContainerCluster start(int workers, boolean actorsOnHead) {
    Leftovers.remove(docker());
    ContainerCluster cluster = new ContainerCluster(workers, actorsOnHead);
    try {
      cluster.startAll();
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

  /** The name of the worker with this number, from 1 on. */
  static String worker(int number) {
    return "worker" + number;
  }

  List<String> workers() {
    return hosts.keySet().stream().filter(name -> !name.equals(HEAD)).toList();
  }

  private GenericContainer<?> newHead() {
    return newHost(
        HEAD,
        actorsOnHead ? GPUS : 0,
        actorsOnHead ? 2 : 0,
        "--head",
        "--port=6379",
        "--include-dashboard=false");
  }

  private GenericContainer<?> newWorker(String name) {
    return newHost(name, GPUS, GPUS, "--address=" + ADDRESS);
  }

  private GenericContainer<?> newHost(String name, int gpus, int cpus, String... role) {
    List<String> command =
        new ArrayList<>(
            List.of("timeout", String.valueOf(LIFE_SECONDS), "ray", "start", "--block"));
    command.addAll(List.of(role));
    command.addAll(
        List.of(
            "--num-cpus=" + cpus,
            "--num-gpus=" + gpus,
            String.format(
                Locale.ROOT, "--resources={\"%s\": %d, \"pretended_gpus\": %d}", name, GPUS, GPUS),
            "--object-store-memory=100000000",
            "--disable-usage-stats"));
    GenericContainer<?> container =
        new GenericContainer<>(image())
            .withNetwork(network)
            .withNetworkAliases(name)
            .withLabels(Leftovers.label())
            .withCreateContainerCmdModifier(create -> create.withHostName(name))
            .withSharedMemorySize(256L << 20)
            .withTmpFs(
                Map.of(SMALL, String.format(Locale.ROOT, "size=%dm,mode=700,exec", SMALL_MIB)))
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
    Path target = HOME.resolve("examples/09-llama-decode/target");
    List<Path> jars = new ArrayList<>();
    jars.add(Path.of(property("nvrar.test.jar")));
    jars.add(Path.of(property("nvrar.launched.jar")));
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

  private GenericContainer<?> host(String name) {
    return Objects.requireNonNull(hosts.get(name), name);
  }

  private String id(String host) {
    return host(host).getContainerId();
  }

  /**
   * Runs a driver of this cluster in the head, until it ends.
   *
   * @param command a main class and its arguments
   */
  ExecResult driver(String... command) throws IOException, InterruptedException {
    return driverOn(HEAD, command);
  }

  /** The same on any host. */
  ExecResult driverOn(String host, String... command) throws IOException, InterruptedException {
    return host(host).execInContainer(driverLine(command));
  }

  /** The same without waiting for its end. */
  RunningDriver startDriver(String... command) {
    return RunningDriver.start(id(HEAD), driverLine(command));
  }

  private static String[] driverLine(String... command) {
    List<String> line =
        new ArrayList<>(List.of("timeout", "-k", "5", String.valueOf(DRIVER_SECONDS), "java"));
    line.addAll(List.of(property("nvrar.jvm.options").split(" ")));
    line.addAll(
        List.of(
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dray.address=" + ADDRESS,
            "-Dray.logging.level=WARN",
            "-Dray.job.namespace=nvrar-test",
            "-Dray.job.code-search-path=" + JARS,
            "-cp",
            "/opt/ray_dist.jar:" + JARS + "/*"));
    line.addAll(List.of(command));
    return line.toArray(String[]::new);
  }

  /** Runs a line of the shell on a host and returns what it printed; it must succeed. */
  String sh(String host, String line) throws IOException, InterruptedException {
    ExecResult result = host(host).execInContainer("sh", "-c", line);
    if (result.getExitCode() != 0) {
      throw new IOException(host + ": " + line + ": " + result);
    }
    return result.getStdout();
  }

  /** A file of a host, which need not run any more. */
  String read(String host, String file) throws IOException {
    return host(host)
        .copyFileFromContainer(file, in -> new String(in.readAllBytes(), StandardCharsets.UTF_8));
  }

  /** Kills all processes of a host at once. */
  void kill(String host) {
    docker().killContainerCmd(id(host)).exec();
  }

  /** Stops all processes of a host. */
  void pause(String host) {
    docker().pauseContainerCmd(id(host)).exec();
  }

  void unpause(String host) {
    docker().unpauseContainerCmd(id(host)).exec();
  }

  /** The address of a host whose plug is in. */
  String addressOf(String host) {
    ContainerNetwork has =
        docker()
            .inspectContainerCmd(id(host))
            .exec()
            .getNetworkSettings()
            .getNetworks()
            .values()
            .iterator()
            .next();
    return Objects.requireNonNull(has.getIpAddress());
  }

  /** Pulls a host's plug. */
  void unplug(String host) {
    docker()
        .disconnectFromNetworkCmd()
        .withNetworkId(network.getId())
        .withContainerId(id(host))
        .exec();
  }

  /**
   * Connects a host again.
   *
   * @param address the one that {@link #addressOf} has said before
   */
  void plugIn(String host, String address) {
    ContainerNetwork again =
        new ContainerNetwork()
            .withAliases(host)
            .withIpamConfig(new ContainerNetwork.Ipam().withIpv4Address(address));
    docker()
        .connectToNetworkCmd()
        .withNetworkId(network.getId())
        .withContainerId(id(host))
        .withContainerNetwork(again)
        .exec();
  }

  /** Takes a wall away. */
  interface Plug {
    void in();
  }

  /**
   * Keeps from a host what comes to a range of its ports, as a firewall does: by a rule of
   * iptables, which the engine's machine has, as the engine itself makes such rules.
   *
   * @param target what becomes of it, such as {@code DROP}
   * @return what takes the rule away
   */
  Plug wall(String host, int firstPort, int lastPort, String target) {
    String rule =
        String.format(Locale.ROOT, "INPUT -p tcp --dport %d:%d -j %s", firstPort, lastPort, target);
    iptables(host, "-A " + rule);
    return () -> iptables(host, "-D " + rule);
  }

  private void iptables(String host, String rule) {
    String inMachine = "XTABLES_LOCKFILE=/dev/null exec chroot /machine iptables -w " + rule;
    String helper =
        docker()
            .createContainerCmd(image())
            .withLabels(Leftovers.label())
            .withHostConfig(
                HostConfig.newHostConfig()
                    .withNetworkMode("container:" + id(host))
                    .withCapAdd(Capability.NET_ADMIN)
                    .withBinds(new Bind("/", new Volume("/machine"), AccessMode.ro)))
            .withCmd("sh", "-c", inMachine)
            .exec()
            .getId();
    try {
      docker().startContainerCmd(helper).exec();
      int status =
          docker()
              .waitContainerCmd(helper)
              .exec(new WaitContainerResultCallback())
              .awaitStatusCode(30, TimeUnit.SECONDS);
      if (status != 0) {
        throw new IllegalStateException("iptables " + rule + " ends with status " + status);
      }
    } finally {
      docker().removeContainerCmd(helper).withForce(true).exec();
    }
  }

  /** Another container in the place of a worker. */
  void replace(String worker) {
    host(worker).close();
    GenericContainer<?> next = newWorker(worker);
    hosts.put(worker, next);
    next.start();
  }

  /** Other containers in the place of all hosts. */
  void restart() {
    hosts.values().forEach(GenericContainer::close);
    hosts.put(HEAD, newHead());
    workers().forEach(name -> hosts.put(name, newWorker(name)));
    startAll();
  }

  private void startAll() {
    host(HEAD).start();
    Startables.deepStart(workers().stream().map(this::host)).join();
  }

  /** The GCS's host and port, as the hosts know them. */
  String address() {
    return ADDRESS;
  }

  @Override
  public void close() {
    hosts.values().forEach(GenericContainer::close);
    network.close();
  }

  private static String property(String name) {
    return Objects.requireNonNull(System.getProperty(name), name);
  }
}
