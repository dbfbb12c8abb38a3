package io.nvrar.it.soak;

import io.nvrar.Backend;
import io.nvrar.device.Devices;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.worker.WorkerMain;
import io.nvrar.tools.NvrarCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code nvrar soak}: see the package. The exit code is 0 if nothing was found. */
@Command(
    name = "soak",
    mixinStandardHelpOptions = true,
    description = {
      "Run random collectives in random groups of processes, break them at random moments, and check every result, every failure and what every process holds.",
      "Exit code 0 if there was no wrong result, no hang, no wrong failure and no leak; else it says how to repeat it."
    })
public final class SoakCommand implements NvrarCommand {
  private static final int FAILED = 1;
  private static final int ROUNDS_PER_CHECK = 10;
  private static final int MIN_WORKERS = 2;
  private static final int MAX_WORKERS = 64;
  private static final int MAX_HOSTS = 8;
  private static final int DEFAULT_HOSTS = 3;

  @Option(
      names = "--minutes",
      defaultValue = "5",
      description = "For how long to begin rounds. Default: ${DEFAULT-VALUE}.")
  private double minutes;

  @Option(names = "--seed", description = "The seed of the rounds. Default: a random number.")
  private @Nullable Long seed;

  @Option(
      names = "--from-round",
      defaultValue = "0",
      description = "The first round. Default: ${DEFAULT-VALUE}.")
  private int fromRound;

  @Option(names = "--rounds", description = "The most rounds. Default: as many as the time allows.")
  private @Nullable Integer rounds;

  @Option(
      names = "--workers",
      defaultValue = "8",
      description =
          "Processes that hold members on this host; the rounds depend on it, too. Default: ${DEFAULT-VALUE}.")
  private int workers;

  @Option(
      names = "--hosts",
      description = {
        "Hosts, of which all but one are simulated and have a quarter as many processes each; links over loopback connect them. The rounds depend on it, too.",
        "Default: 3, or as many as there are GPUs up to 8, where this user may mount; else 1."
      })
  private @Nullable Integer hosts;

  @Option(
      names = "--slack",
      defaultValue = "5",
      description =
          "Seconds that a busy machine may add to every promised limit. Default: ${DEFAULT-VALUE}.")
  private double slackSeconds;

  @Spec private @Nullable CommandSpec spec;

  /** For {@link java.util.ServiceLoader}. */
  public SoakCommand() {}

  @Override
  public Integer call() throws IOException, InterruptedException {
    check(minutes > 0, "--minutes is " + minutes + ", must be more than 0");
    check(fromRound >= 0, "--from-round is " + fromRound + ", must be 0 or more");
    check(rounds == null || rounds > 0, "--rounds is " + rounds + ", must be 1 or more");
    check(slackSeconds >= 0, "--slack is " + slackSeconds + ", must be 0 or more");
    check(
        workers >= MIN_WORKERS && workers <= MAX_WORKERS,
        String.format(
            Locale.ROOT, "--workers is %d, must be %d to %d", workers, MIN_WORKERS, MAX_WORKERS));
    check(
        hosts == null || (hosts >= 1 && hosts <= MAX_HOSTS),
        String.format(Locale.ROOT, "--hosts is %d, must be 1 to %d", hosts, MAX_HOSTS));
    PrintWriter out = Objects.requireNonNull(spec).commandLine().getOut();
    int here = Devices.unavailabilityCause(Backend.CUDA) == null ? Devices.count(Backend.CUDA) : 0;
    int fleetHosts = hosts(out, here);
    int gpus = Math.min(here, fleetHosts);
    Fleet fleet = new Fleet(workers, fleetHosts, gpus > 1 ? gpus : 0);
    long drawnFrom = seed == null ? new SecureRandom().nextInt(1_000_000_000) : seed;
    Path directory = directory(drawnFrom);
    out.printf(
        Locale.ROOT,
        "soak: seed %d, from round %d, %.1f minutes, %d workers, %d hosts, GPUs on %d of them, logs in %s%n",
        drawnFrom,
        fromRound,
        minutes,
        workers,
        fleet.hosts(),
        fleet.gpus(),
        directory);
    Report report =
        new Soak(
                new Soak.Settings(
                    drawnFrom,
                    fromRound,
                    rounds == null ? Integer.MAX_VALUE : rounds,
                    Duration.ofMillis((long) (minutes * 60_000)),
                    ROUNDS_PER_CHECK,
                    fleet,
                    Duration.ofMillis((long) (slackSeconds * 1000)),
                    WorkerMain.class.getName(),
                    directory),
                out::println)
            .run();
    if (report.isClean()) {
      delete(directory);
      return 0;
    }
    return FAILED;
  }

  private int hosts(PrintWriter out, int gpus) throws IOException, InterruptedException {
    if (hosts != null && hosts == 1) {
      return 1;
    }
    String obstacle = SimulatedHosts.obstacle();
    check(
        hosts == null || obstacle == null,
        String.format(
            Locale.ROOT, "--hosts is %d, but hosts cannot be simulated here: %s", hosts, obstacle));
    if (obstacle != null) {
      out.printf(
          "soak: one host only, because others cannot be simulated here: %s; where user namespaces are allowed, unshare --map-root-user bin/nvrar soak can%n",
          obstacle);
      return 1;
    }
    return hosts == null ? Math.min(Math.max(DEFAULT_HOSTS, gpus), MAX_HOSTS) : hosts;
  }

  private void check(boolean fine, String complaint) {
    if (!fine) {
      throw new ParameterException(Objects.requireNonNull(spec).commandLine(), complaint);
    }
  }

  private static Path directory(long seed) throws IOException {
    String home = System.getProperty("nvrar.home");
    Path state = home == null ? null : Path.of(home, "target", "nvrar");
    // The checkout may be another user's.
    Path parent =
        state != null && Files.isWritable(state)
            ? state.resolve("soak")
            : Path.of(System.getProperty("java.io.tmpdir"));
    return Files.createTempDirectory(Files.createDirectories(parent), "soak-" + seed + "-");
  }

  private static void delete(Path directory) throws IOException {
    List<Path> deepestFirst;
    try (Stream<Path> files = Files.walk(directory)) {
      deepestFirst = files.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path file : deepestFirst) {
      Files.delete(file);
    }
  }
}
