package io.nvrar.cli.bench;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import io.nvrar.bootstrap.Groups;
import io.nvrar.cli.NvrarCommand;
import io.nvrar.device.Devices;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times the collectives between processes of this machine. */
@Command(
    name = "bench",
    mixinStandardHelpOptions = true,
    description = {
      "Time the collectives between processes of this machine: from C++, from Java, and beside"
          + " Open MPI where it is installed, in turn and in one table.",
      "Time: the mean of a batch of calls made back to back; of the ranks the slowest, of the"
          + " batches and rounds the median. After each batch one call is checked, every element on"
          + " every rank, against values computed without the library."
    })
public final class BenchCommand implements NvrarCommand {
  /** Sizes for the collectives that have no comparison: latency, the middle, bandwidth. */
  private static final long DOCUMENT_LEAST_BYTES = 1 << 10;

  private static final long DOCUMENT_MOST_BYTES = 1 << 20;
  private static final int DOCUMENT_FACTOR = 32;

  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Option(
      names = "--backend",
      defaultValue = "cpu",
      description = "cpu; auto is the same in this version (default: ${DEFAULT-VALUE}).")
  private Backend backend = Backend.CPU;

  @Option(
      names = "--from",
      split = ",",
      converter = Names.Implementations.class,
      paramLabel = "NAME",
      description = "c++, java, open-mpi (default: all that are here).")
  private @Nullable List<Implementation> from;

  @Option(
      names = "--processes",
      split = ",",
      defaultValue = "2,4",
      paramLabel = "N",
      description = "Ranks, each a process, 1 to 8; several in turn (default: ${DEFAULT-VALUE}).")
  private List<Integer> processes = List.of();

  @Option(
      names = "--collective",
      split = ",",
      converter = Names.Collectives.class,
      defaultValue = "all-reduce",
      paramLabel = "NAME",
      description =
          "all-reduce, reduce, broadcast, all-gather, reduce-scatter, all-to-all, send-receive,"
              + " barrier; several in turn (default: ${DEFAULT-VALUE}).")
  private List<Collective> collectives = List.of();

  @Option(names = "--all", description = "Every collective.")
  private boolean all;

  @Option(
      names = "--type",
      converter = Names.Types.class,
      defaultValue = "float32",
      paramLabel = "NAME",
      description =
          "float32, float16, bfloat16, float64, int8, uint8, int32, int64 (default:"
              + " ${DEFAULT-VALUE}).")
  private DataType type = DataType.FLOAT32;

  @Option(
      names = "--op",
      converter = Names.Ops.class,
      defaultValue = "sum",
      paramLabel = "NAME",
      description = "sum, product, max, min, avg (default: ${DEFAULT-VALUE}).")
  private ReduceOp op = ReduceOp.SUM;

  @Option(
      names = "--algorithm",
      converter = Names.Algorithms.class,
      defaultValue = "auto",
      paramLabel = "NAME",
      description =
          "Of all-reduce: auto, one-shot, two-shot, hierarchical (default: ${DEFAULT-VALUE}).")
  private Algorithm algorithm = Algorithm.AUTO;

  @Option(
      names = "--root",
      defaultValue = "0",
      paramLabel = "RANK",
      description = "Of reduce and broadcast (default: ${DEFAULT-VALUE}).")
  private int root;

  @Option(
      names = "--min",
      converter = Names.Bytes.class,
      defaultValue = "8",
      paramLabel = "BYTES",
      description = "Smallest size, such as 64, 8K, 4M (default: ${DEFAULT-VALUE}).")
  private long minBytes;

  @Option(
      names = "--max",
      converter = Names.Bytes.class,
      defaultValue = "4M",
      paramLabel = "BYTES",
      description = "Largest size (default: ${DEFAULT-VALUE}).")
  private long maxBytes;

  @Option(
      names = "--factor",
      defaultValue = "2",
      paramLabel = "N",
      description = "From one size to the next, 2 to 1024 (default: ${DEFAULT-VALUE}).")
  private int factor;

  @Option(
      names = "--iters",
      defaultValue = "0",
      paramLabel = "N",
      description = "Calls in a timed batch (default: by size, 20 to 1000).")
  private int iterations;

  @Option(
      names = "--warmup",
      defaultValue = "-1",
      paramLabel = "N",
      description =
          "Untimed calls before each batch (default: a tenth of --iters); 0 also leaves out Java's"
              + " 30,000 for the JVM's compiler.")
  private int warmup;

  @Option(
      names = "--repeats",
      defaultValue = "5",
      paramLabel = "N",
      description = "Batches of a round (default: ${DEFAULT-VALUE}).")
  private int repeats;

  @Option(
      names = "--rounds",
      defaultValue = "3",
      paramLabel = "N",
      description = "Rounds, each in fresh processes (default: ${DEFAULT-VALUE}).")
  private int rounds;

  @Option(
      names = "--ranks-per-node",
      defaultValue = "0",
      paramLabel = "N",
      description = "Simulated nodes of so many ranks (default: all in one).")
  private int ranksPerNode;

  @Option(
      names = "--ring-bytes",
      converter = Names.Bytes.class,
      paramLabel = "BYTES",
      description = "The group's ringBytes (default: the library's).")
  private @Nullable Long ringBytes;

  @Option(names = "--csv", paramLabel = "FILE", description = "Also as CSV.")
  private @Nullable Path csv;

  @Option(names = "--json", paramLabel = "FILE", description = "Also as JSON.")
  private @Nullable Path json;

  @Option(
      names = "--document",
      paramLabel = "FILE",
      description =
          "Also the other collectives at three sizes, and all as tables in this Markdown file,"
              + " between its two marks.")
  private @Nullable Path document;

  @Option(names = "--member", hidden = true, description = "Be the member of this rank.")
  private @Nullable Integer member;

  /** For {@link java.util.ServiceLoader}. */
  public BenchCommand() {}

  @Override
  public Integer call() throws IOException, InterruptedException {
    check();
    PrintWriter out = spec.commandLine().getOut();
    if (member != null) {
      JavaRun.member(settings(collectives.get(0), processes.get(0)), member, out);
      return 0;
    }
    checkBackend();
    List<Settings> settings = settings();
    PrintWriter err = spec.commandLine().getErr();
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    Campaign campaign =
        new Campaign(settings, implementations(home, settings, err), rounds, home, err);
    String machine = Machine.describe();
    Results results = new Results(campaign.run());
    out.println(machine);
    TextReport.print(results, out);
    write(machine, results);
    if (results.wrong() > 0) {
      throw new CollectiveException(
          "%d elements of the results were wrong; the column #wrong says where"
              .formatted(results.wrong()));
    }
    return 0;
  }

  private void write(String machine, Results results) throws IOException {
    List<String> words = new ArrayList<>(List.of("bin/nvrar", "bench"));
    // Below the launcher's root command they begin with this command's name.
    spec.commandLine().getParseResult().originalArgs().stream()
        .dropWhile(spec.name()::equals)
        .forEach(words::add);
    String command = String.join(" ", words);
    if (csv != null) {
      ResultFiles.csv(csv, results.rows());
    }
    if (json != null) {
      ResultFiles.json(json, machine, command, results.rows());
    }
    if (document != null) {
      MarkdownReport.write(document, machine, command, results);
    }
  }

  private List<Settings> settings() {
    List<Settings> settings = new ArrayList<>();
    List<Collective> measured = all ? List.of(Collective.values()) : collectives;
    for (Collective collective : measured) {
      for (int count : processes) {
        settings.add(settings(collective, count));
      }
    }
    if (document != null) {
      int most = processes.stream().mapToInt(Integer::intValue).max().orElseThrow();
      for (Collective collective : Collective.values()) {
        if (!measured.contains(collective)) {
          settings.add(
              settings(collective, most)
                  .ofSizes(DOCUMENT_LEAST_BYTES, DOCUMENT_MOST_BYTES, DOCUMENT_FACTOR));
        }
      }
    }
    return settings;
  }

  private Settings settings(Collective collective, int count) {
    return new Settings(
        collective,
        count,
        ranksPerNode,
        type,
        op,
        algorithm,
        root,
        minBytes,
        maxBytes,
        factor,
        iterations,
        warmup,
        repeats,
        ringBytes == null ? 0 : ringBytes);
  }

  private List<Implementation> implementations(
      Path home, List<Settings> settings, PrintWriter err) {
    List<Implementation> wanted = from == null ? List.of(Implementation.values()) : from;
    String leftOut = "";
    for (Settings one : settings) {
      String reason = ProgramRun.mpiLeftOut(home, one);
      if (reason.isEmpty()) {
        return wanted;
      }
      leftOut = reason;
    }
    if (from != null && from.contains(Implementation.OPEN_MPI)) {
      throw new CollectiveException("--from names open-mpi, but " + leftOut);
    }
    if (wanted.contains(Implementation.OPEN_MPI)) {
      err.println("nvrar: left out: Open MPI, " + leftOut);
    }
    return wanted.stream().filter(one -> one != Implementation.OPEN_MPI).toList();
  }

  private void checkBackend() {
    @Nullable BackendUnavailableException cause =
        Devices.unavailabilityCause(backend == Backend.AUTO ? Backend.CPU : backend);
    if (cause != null) {
      throw cause;
    }
  }

  private void check() throws IOException {
    for (int count : processes) {
      require(count, "--processes", 1, Groups.MAX_WORLD_SIZE);
    }
    int fewest = processes.stream().mapToInt(Integer::intValue).min().orElseThrow();
    if (root < 0 || root >= fewest) {
      throw wrong("--root is %d, not a rank of %d processes".formatted(root, fewest));
    }
    if (minBytes > maxBytes) {
      throw wrong("--min is %d bytes, more than --max, %d".formatted(minBytes, maxBytes));
    }
    if (op == ReduceOp.AVG && !type.isFloat()) {
      throw wrong("--op avg is for floating types, --type is " + Names.of(type));
    }
    require(factor, "--factor", 2, 1024);
    require(iterations, "--iters", 0, 1_000_000);
    require(warmup, "--warmup", -1, 1_000_000);
    require(repeats, "--repeats", 1, 1000);
    require(rounds, "--rounds", 1, 1000);
    require(ranksPerNode, "--ranks-per-node", 0, Groups.MAX_WORLD_SIZE);
    if (document != null) {
      MarkdownReport.check(document);
    }
  }

  private void require(int value, String option, int least, int most) {
    if (value < least || value > most) {
      throw wrong("%s is %d, must be %d to %d".formatted(option, value, least, most));
    }
  }

  private ParameterException wrong(String sentence) {
    return new ParameterException(spec.commandLine(), sentence);
  }
}
