package io.nvrar.tools.bench;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import io.nvrar.device.Devices;
import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.AnswerPipe;
import io.nvrar.tools.NvrarCommand;
import io.nvrar.tools.bench.measure.JavaRun;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.results.Baseline;
import io.nvrar.tools.bench.results.MarkdownReport;
import io.nvrar.tools.bench.results.ResultFiles;
import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.results.Results;
import io.nvrar.tools.bench.results.TextReport;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.OptionNames.Compared;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code nvrar bench}: times the collectives between processes of this machine. */
@Command(
    name = "bench",
    mixinStandardHelpOptions = true,
    description = {
      "Time the collectives between processes of this machine: from C++, from Java, and beside"
          + " Open MPI where it is installed, in turn and in one table. On GPUs beside the kernels"
          + " of the study that ours are compared with, and, where python3 has PyTorch, NCCL and"
          + " PyTorch's symmetric memory.",
      "Time: the mean of a batch of calls made back to back; of the ranks the slowest, of the"
          + " batches and rounds the median. After each batch, on GPUs after those of a mode, one"
          + " more is checked, every element on every rank, against values computed without the"
          + " library."
    })
public final class BenchCommand implements NvrarCommand {
  /** The exit code if times exceed those of the baseline. */
  static final int SLOWER = 4;

  private static final String REPORTS = "reports";

  private static final long LEAST_BYTES = 8;
  private static final long MOST_BYTES = 4 << 20;
  private static final int FACTOR = 2;
  private static final int REPEATS = 5;
  private static final long GPU_LEAST_BYTES = 1 << 10;
  private static final long GPU_MOST_BYTES = 8 << 20;
  private static final int GPU_REPEATS = 30;

  private static final int HIDDEN = 8192;
  private static final int HIDDEN_MULTIPLE = 8;
  private static final List<Integer> ROWS = List.of(1, 2, 4, 8, 16, 32);
  private static final int MOST_ROWS = 4096;

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
      description = "cpu, cuda, or auto: cuda where it can run (default: ${DEFAULT-VALUE}).")
  private Backend backend = Backend.CPU;

  @Option(
      names = "--compare",
      split = ",",
      converter = OptionNames.Comparisons.class,
      paramLabel = "NAME",
      description =
          "What to measure: c++ and java, both where neither is named, and beside them on the CPU"
              + " mpi (open-mpi), on GPUs nccl, torch (torch-one-shot, torch-two-shot,"
              + " torch-reduce-scatter, torch-low-contention), study, with --fused also c++-apart"
              + " (default: all that are here).")
  private @Nullable List<Compared> compare;

  @Option(
      names = {"--processes", "--ranks"},
      split = ",",
      paramLabel = "N",
      description =
          "Ranks, each a process, 1 to 8; several in turn (default: 2,4; one for each host of"
              + " --hosts; on GPUs one for each that is visible).")
  private @Nullable List<Integer> processes;

  @Option(
      names = "--mode",
      split = ",",
      converter = OptionNames.Modes.class,
      paramLabel = "NAME",
      description =
          "On GPUs: graph, eager, graph-compute, eager-compute, graph-cold: a batch in a CUDA graph"
              + " or call by call, bare, with a kernel of about 1 us after each call, or with one"
              + " before each call that takes everything else out of the L2 cache; that kernel's own"
              + " time is subtracted (default: all in turn).")
  private List<Mode> modes = Mode.OF_GPUS;

  @Option(
      names = "--gpus",
      defaultValue = "0",
      paramLabel = "N",
      description = "On GPUs: rank r is on GPU r mod N (default: each has its own).")
  private int gpus;

  @Option(
      names = "--memory",
      converter = OptionNames.Memories.class,
      defaultValue = "auto",
      paramLabel = "NAME",
      description =
          "On GPUs: how the ranks reach each other, auto, nvshmem, ipc (default:"
              + " ${DEFAULT-VALUE}).")
  private MemoryProvider memory = MemoryProvider.AUTO;

  @Option(
      names = "--exclusive",
      defaultValue = "0",
      paramLabel = "0|1",
      description = "On GPUs: 1: the group has its GPUs for itself (default: ${DEFAULT-VALUE}).")
  private int exclusive;

  @Option(
      names = "--programmatic-launch",
      defaultValue = "0",
      paramLabel = "0|1",
      description =
          "On GPUs: 1: calls, the study's kernels, and the kernel of the compute modes are enqueued"
              + " with programmatic dependent launch (default: ${DEFAULT-VALUE}).")
  private int programmaticLaunch;

  @Option(
      names = "--fused",
      arity = "0..1",
      defaultValue = "0",
      fallbackValue = "1",
      paramLabel = "0|1",
      description =
          "On GPUs: fused all-reduces of rows instead, beside an all-reduce with a kernel behind it"
              + " for the rest (c++-apart); --min, --max, --factor and"
              + " --ranks-per-node are not for them.")
  private int fused;

  @Option(
      names = "--form",
      converter = OptionNames.Forms.class,
      paramLabel = "NAME",
      description =
          "What they do with their sums: residual, bias, rms-norm, rms-fold (default: rms-norm).")
  private AllReduceFusion.@Nullable Form form;

  @Option(names = "--hidden", paramLabel = "N", description = "Elements of a row (default: 8192).")
  private @Nullable Integer hidden;

  @Option(
      names = "--rows",
      split = ",",
      paramLabel = "N",
      description = "Numbers of rows, each a size (default: 1,2,4,8,16,32).")
  private @Nullable List<Integer> rows;

  @Option(
      names = "--collective",
      split = ",",
      converter = OptionNames.Collectives.class,
      defaultValue = "all-reduce",
      paramLabel = "NAME",
      description =
          "all-reduce, reduce, broadcast, all-gather, reduce-scatter, all-to-all, send-receive,"
              + " barrier; several in turn (default: ${DEFAULT-VALUE}).")
  private List<TimedCollective> collectives = List.of();

  @Option(names = "--all", description = "Every collective.")
  private boolean all;

  @Option(
      names = "--type",
      converter = OptionNames.Types.class,
      paramLabel = "NAME",
      description =
          "float32, float16, bfloat16, float64, int8, uint8, int32, int64 (default: float32; on"
              + " GPUs bfloat16).")
  private @Nullable DataType type;

  @Option(
      names = "--op",
      converter = OptionNames.Ops.class,
      defaultValue = "sum",
      paramLabel = "NAME",
      description = "sum, product, max, min, avg (default: ${DEFAULT-VALUE}).")
  private ReduceOp op = ReduceOp.SUM;

  @Option(
      names = "--algorithm",
      converter = OptionNames.Algorithms.class,
      defaultValue = "auto",
      paramLabel = "NAME",
      description =
          "The algorithm of all-reduce: auto, one-shot, two-shot, hierarchical (default: ${DEFAULT-VALUE}).")
  private Algorithm algorithm = Algorithm.AUTO;

  @Option(
      names = "--root",
      defaultValue = "0",
      paramLabel = "RANK",
      description = "The root of reduce and broadcast (default: ${DEFAULT-VALUE}).")
  private int root;

  @Option(
      names = "--min",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "Smallest size, such as 64, 8K, 4M (default: 8; on GPUs 1K).")
  private @Nullable Long minBytes;

  @Option(
      names = "--max",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "Largest size (default: 4M; on GPUs 8M).")
  private @Nullable Long maxBytes;

  @Option(
      names = "--factor",
      paramLabel = "N",
      description = "The factor from one size to the next, 2 to 1024 (default: 2).")
  private @Nullable Integer factor;

  @Option(
      names = "--iters",
      defaultValue = "0",
      paramLabel = "N",
      description =
          "Calls in a timed batch (default: by size, 20 to 1000; on GPUs 40,"
              + " beyond 8M fewer, to 5).")
  private int iterations;

  @Option(
      names = "--warmup",
      defaultValue = "-1",
      paramLabel = "N",
      description =
          "Untimed calls before each batch (default: a tenth of --iters); on GPUs untimed batches"
              + " (default: 3); 0 also leaves out Java's 30,000 for the JVM's compiler.")
  private int warmup;

  @Option(
      names = "--repeats",
      paramLabel = "N",
      description = "Batches of a round (default: 5; on GPUs 30).")
  private @Nullable Integer repeats;

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
      description = "Simulate nodes of this many ranks (default: all in one).")
  private int ranksPerNode;

  @Option(
      names = "--hosts",
      paramLabel = "N",
      description =
          "Between the containers of so many hosts, which bin/nvrar starts by Docker, over their"
              + " network, with the ranks divided among them (default: on this host).")
  private @Nullable Integer hosts;

  @Option(
      names = "--ring-bytes",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "The group's ringBytes (default: the library's).")
  private @Nullable Long ringBytes;

  @Mixin(name = REPORTS)
  private final ReportOptions reports = new ReportOptions();

  @Option(names = "--member", hidden = true, description = "Be the member of this rank.")
  private @Nullable Integer member;

  @Option(names = "--barrier", hidden = true, description = "Where the members meet.")
  private @Nullable Path barrier;

  /** For {@link java.util.ServiceLoader}. */
  public BenchCommand() {}

  @Override
  public Integer call() throws IOException, InterruptedException {
    backend = Devices.resolve(backend);
    check();
    if (member != null && barrier != null && processes != null) {
      try (PrintWriter answers = AnswerPipe.open(spec.commandLine())) {
        JavaRun.member(settings(collectives.get(0), processes.get(0)), member, barrier, answers);
      }
      return 0;
    }
    if (reports.from != null) {
      return report(ResultFiles.read(reports.from), reports.baseline());
    }
    checkBackend();
    checkRoot();
    List<Settings> settings = settings();
    @Nullable Baseline baseline = reports.baseline();
    if (baseline != null) {
      baseline.check(settings);
    }
    PrintWriter err = spec.commandLine().getErr();
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    Campaign campaign =
        new Campaign(settings, Contestants.choose(compare, home, settings, err), rounds, home, err);
    String machine = Machine.describe(backend);
    Run run = new Run(machine, command(), campaign.run());
    int code = report(run, baseline);
    if (!campaign.failures().isEmpty()) {
      throw new CollectiveException(
          campaign.failures().entrySet().stream()
              .map(
                  one ->
                      "%s was abandoned: %s".formatted(one.getKey(), one.getValue().getMessage()))
              .collect(Collectors.joining("; ")));
    }
    return code;
  }

  private int report(Run run, @Nullable Baseline baseline) throws IOException {
    PrintWriter out = spec.commandLine().getOut();
    Results results = new Results(run.rows());
    out.println(run.machine());
    TextReport.print(results, out);
    reports.write(place(), run);
    String slower = baseline == null ? "" : reports.compare(baseline, run, out);
    if (results.wrong() > 0) {
      throw new CollectiveException(
          "%d elements of the results were wrong; the column #wrong says where"
              .formatted(results.wrong()));
    }
    PrintWriter err = spec.commandLine().getErr();
    if (baseline != null && !baseline.run().machine().equals(run.machine())) {
      err.println("nvrar: the baseline was measured on " + baseline.run().machine());
    }
    if (slower.isEmpty()) {
      return 0;
    }
    err.println("nvrar: " + slower);
    return SLOWER;
  }

  private String command() {
    List<String> words = new ArrayList<>(List.of("bin/nvrar", "bench"));
    // Below the launcher's root command they begin with this command's name.
    spec.commandLine().getParseResult().originalArgs().stream()
        .dropWhile(spec.name()::equals)
        .forEach(words::add);
    return String.join(" ", words);
  }

  private List<Settings> settings() {
    List<Settings> settings = new ArrayList<>();
    List<TimedCollective> measured = all ? List.of(TimedCollective.values()) : collectives;
    for (TimedCollective collective : measured) {
      for (int count : ranks()) {
        settings.add(settings(collective, count));
      }
    }
    if (reports.document != null && backend == Backend.CPU && hosts == null) {
      int most = ranks().stream().mapToInt(Integer::intValue).max().orElseThrow();
      for (TimedCollective collective : TimedCollective.values()) {
        if (!measured.contains(collective)) {
          settings.add(
              settings(collective, most)
                  .ofSizes(DOCUMENT_LEAST_BYTES, DOCUMENT_MOST_BYTES, DOCUMENT_FACTOR));
        }
      }
    }
    return settings;
  }

  private Settings settings(TimedCollective collective, int count) {
    return new Settings(
        backend,
        onGpu() ? modes : List.of(Mode.CALLS),
        gpus,
        memory,
        exclusive == 1,
        programmaticLaunch == 1,
        collective,
        count,
        ranksPerNode,
        type(),
        op,
        algorithm,
        root,
        least(),
        most(),
        factor(),
        iterations,
        warmup,
        repeats == null ? (onGpu() ? GPU_REPEATS : REPEATS) : repeats,
        ringBytes == null ? 0 : ringBytes,
        hosts == null ? 1 : hosts,
        fused == 1 ? fusedRows() : null);
  }

  private FusedRows fusedRows() {
    return new FusedRows(
        form == null ? AllReduceFusion.Form.RMS_NORM : form,
        hidden == null ? HIDDEN : hidden,
        rows == null ? ROWS : rows);
  }

  private MarkdownReport.Place place() {
    if (fused == 1) {
      return MarkdownReport.Place.FUSED;
    }
    return onGpu()
        ? MarkdownReport.Place.GPUS
        : hosts != null ? MarkdownReport.Place.HOSTS : MarkdownReport.Place.HOST;
  }

  private boolean onGpu() {
    return backend == Backend.CUDA;
  }

  private List<Integer> ranks() {
    if (processes != null) {
      return processes;
    }
    if (hosts != null) {
      return List.of(hosts);
    }
    return onGpu() ? List.of(Math.min(CudaDevices.count(), Groups.MAX_NODE_SIZE)) : List.of(2, 4);
  }

  private DataType type() {
    if (type != null) {
      return type;
    }
    return onGpu() ? DataType.BFLOAT16 : DataType.FLOAT32;
  }

  private long least() {
    if (minBytes != null) {
      return minBytes;
    }
    return onGpu() ? GPU_LEAST_BYTES : LEAST_BYTES;
  }

  private long most() {
    if (maxBytes != null) {
      return maxBytes;
    }
    return onGpu() ? GPU_MOST_BYTES : MOST_BYTES;
  }

  private int factor() {
    return factor == null ? FACTOR : factor;
  }

  private void checkBackend() {
    @Nullable BackendUnavailableException cause = Devices.unavailabilityCause(backend);
    if (cause != null) {
      throw cause;
    }
  }

  private void check() throws IOException {
    if (processes != null) {
      for (int count : processes) {
        require(count, "--processes", 1, Groups.MAX_NODE_SIZE);
      }
    }
    if (least() > most()) {
      throw wrong("--min is %d bytes, more than --max, %d".formatted(least(), most()));
    }
    if (op == ReduceOp.AVG && !type().isFloat()) {
      throw wrong("--op avg is for floating types, --type is " + OptionNames.of(type()));
    }
    if (!onGpu()
        && (gpus != 0
            || memory != MemoryProvider.AUTO
            || exclusive != 0
            || programmaticLaunch != 0)) {
      throw wrong("--gpus, --memory, --exclusive and --programmatic-launch are for --backend cuda");
    }
    checkFused();
    require(gpus, "--gpus", 0, Groups.MAX_NODE_SIZE);
    require(exclusive, "--exclusive", 0, 1);
    require(programmaticLaunch, "--programmatic-launch", 0, 1);
    require(factor(), "--factor", 2, 1024);
    require(iterations, "--iters", 0, 1_000_000);
    require(warmup, "--warmup", -1, 1_000_000);
    require(repeats == null ? 1 : repeats, "--repeats", 1, 1000);
    require(rounds, "--rounds", 1, 1000);
    require(ranksPerNode, "--ranks-per-node", 0, Groups.MAX_NODE_SIZE);
    if (hosts != null) {
      require(hosts, "--hosts", 2, Groups.MAX_NODE_SIZE);
      if (onGpu()) {
        throw wrong("--hosts is for --backend cpu");
      }
      for (int count : ranks()) {
        checkEveryHostHasARank(count, hosts);
      }
      if (ProgramRun.onHosts() == null) {
        throw wrong("--hosts needs the containers that bin/nvrar bench starts");
      }
    }
    checkFrom();
    try {
      reports.checkOptions();
    } catch (IllegalArgumentException e) {
      throw wrong(String.valueOf(e.getMessage()));
    }
    reports.check(place());
  }

  /** With --from nothing is measured, so an option that says how would be lost. */
  private void checkFrom() {
    if (reports.from == null) {
      return;
    }
    CommandSpec mixin = Objects.requireNonNull(spec.mixins().get(REPORTS));
    Set<String> fit = new HashSet<>(mixin.optionsMap().keySet());
    fit.remove(ReportOptions.DOCUMENT);
    for (OptionSpec given : spec.commandLine().getParseResult().matchedOptions()) {
      if (!given.inherited() && !fit.contains(given.longestName())) {
        throw wrong("%s is not for --from, which measures nothing".formatted(given.longestName()));
      }
    }
  }

  private void checkFused() {
    require(fused, "--fused", 0, 1);
    if (fused == 0) {
      if (form != null || hidden != null || rows != null) {
        throw wrong("--form, --hidden and --rows are for --fused");
      }
      return;
    }
    if (!onGpu()) {
      throw wrong("--fused is for --backend cuda");
    }
    if (minBytes != null || maxBytes != null || factor != null) {
      throw wrong(
          "--min, --max and --factor are not for --fused; --rows and --hidden say the sizes");
    }
    if (ranksPerNode != 0) {
      throw wrong("--ranks-per-node is not for --fused, which needs all ranks on GPUs in one node");
    }
    if (all || !collectives.equals(List.of(TimedCollective.ALL_REDUCE)) || op != ReduceOp.SUM) {
      throw wrong("--fused is for --collective all-reduce and --op sum");
    }
    if (!type().isFloat() || type() == DataType.FLOAT64) {
      throw wrong(
          "--fused is for bfloat16, float16 and float32, --type is " + OptionNames.of(type()));
    }
    FusedRows wanted = fusedRows();
    require(wanted.hidden(), "--hidden", HIDDEN_MULTIPLE, AllReduceFusion.MAX_HIDDEN);
    if (wanted.hidden() % HIDDEN_MULTIPLE != 0) {
      throw wrong(
          "--hidden is %d, must be a multiple of %d".formatted(wanted.hidden(), HIDDEN_MULTIPLE));
    }
    Set<Integer> different = new HashSet<>();
    for (int count : wanted.rows()) {
      require(count, "--rows", 1, MOST_ROWS);
      if (!different.add(count)) {
        throw wrong(
            "--rows has %d twice, and each number of rows is measured once".formatted(count));
      }
    }
  }

  /** The ranks are divided as bin/lib/on-hosts divides them: the first hosts have the most. */
  private void checkEveryHostHasARank(int ranks, int among) {
    int onEach = (ranks + among - 1) / among;
    int without = among - (ranks + onEach - 1) / onEach;
    if (without > 0) {
      throw wrong(
          "--processes is %d, which leaves %s of %d hosts without a rank"
              .formatted(ranks, without == 1 ? "one" : "" + without, among));
    }
  }

  /** Finds out the properties of the GPUs that the settings depend on. */
  private void checkRoot() {
    int fewest = ranks().stream().mapToInt(Integer::intValue).min().orElseThrow();
    if (root < 0 || root >= fewest) {
      throw wrong("--root is %d, not a rank of %d processes".formatted(root, fewest));
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
