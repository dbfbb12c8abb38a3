package io.nvrar.tools.tune;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import io.nvrar.TuningTable.Collective;
import io.nvrar.device.Devices;
import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.NvrarCommand;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tuning.TuningCache;
import io.nvrar.tuning.TuningFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** {@code nvrar tune}: makes a tuning table for groups of a size and a type. */
@Command(
    name = "tune",
    mixinStandardHelpOptions = true,
    description = {
      "Measure on this machine which algorithm, and on GPUs which number of blocks and tiles, is the"
          + " fastest for each size of message, and write a tuning table that"
          + " TuningCache.resolve finds.",
      "Every element of every point's results is checked; a point with wrong ones does not count. A"
          + " rule that fixes more must be faster by more than 2 %. Rules of the file for other"
          + " types, collectives, world sizes and architectures are kept."
    })
public final class TuneCommand implements NvrarCommand {
  private static final long LEAST_BYTES = 64;
  private static final long MOST_BYTES = 1 << 20;
  private static final int FACTOR = 4;
  private static final long GPU_LEAST_BYTES = 1 << 10;
  private static final long GPU_MOST_BYTES = 8 << 20;
  private static final int GPU_FACTOR = 2;
  private static final int MOST_FACTOR = 1024;
  private static final int MOST_TOP = 1000;
  private static final Duration BUDGET = Duration.ofSeconds(60);
  private static final Duration FULL_BUDGET = Duration.ofHours(24);

  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Option(
      names = "--backend",
      defaultValue = "cpu",
      description = "cpu, cuda, or auto: cuda where it can run (default: ${DEFAULT-VALUE}).")
  private Backend backend = Backend.CPU;

  @Option(
      names = {"--ranks", "--processes"},
      paramLabel = "N",
      description =
          "The world size, 2 to 8, each rank a process (default: 2; on GPUs one for each that is"
              + " visible).")
  private @Nullable Integer ranks;

  @Option(
      names = "--ranks-per-node",
      defaultValue = "0",
      paramLabel = "N",
      description = "Simulate nodes of this many ranks (default: all in one).")
  private int ranksPerNode;

  @Option(
      names = "--gpus",
      defaultValue = "0",
      paramLabel = "N",
      description = "On GPUs: rank r is on GPU r mod N (default: each has its own).")
  private int gpus;

  @Option(
      names = "--type",
      converter = OptionNames.Types.class,
      paramLabel = "NAME",
      description = "The type of the elements (default: float32, on GPUs bfloat16).")
  private @Nullable DataType type;

  @Option(
      names = "--collective",
      converter = OptionNames.TunedCollectives.class,
      defaultValue = "all-reduce",
      paramLabel = "NAME",
      description =
          "all-reduce, all-gather, broadcast, reduce, reduce-scatter, all-to-all (default:"
              + " ${DEFAULT-VALUE}).")
  private Collective collective = Collective.ALL_REDUCE;

  @Option(
      names = "--min",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description = "Smallest size (default: 64, on GPUs 1K).")
  private @Nullable Long minBytes;

  @Option(
      names = "--max",
      converter = OptionNames.Bytes.class,
      paramLabel = "BYTES",
      description =
          "Largest size; larger messages run as without a table (default: 1M, on GPUs 8M).")
  private @Nullable Long maxBytes;

  @Option(
      names = "--factor",
      paramLabel = "N",
      description = "From one size to the next (default: 4, on GPUs 2).")
  private @Nullable Integer factor;

  @Option(
      names = "--budget",
      converter = Seconds.class,
      paramLabel = "TIME",
      description =
          "How long to measure, such as 60s or 5m; what there is then makes the table (default:"
              + " 60s, with --full as long as it takes).")
  private @Nullable Duration budget;

  @Option(
      names = "--full",
      description =
          "Measure every candidate, of a finer grid, with as many batches, instead of halving their"
              + " number from round to round.")
  private boolean full;

  @Option(
      names = "--top",
      defaultValue = "5",
      paramLabel = "K",
      description =
          "Show so many of the fastest candidates of each size (default: ${DEFAULT-VALUE}).")
  private int top;

  @Option(
      names = "--resume",
      description = "Continue a run that was stopped: take what its journal beside the table has.")
  private boolean resume;

  @Option(
      names = "--output",
      paramLabel = "FILE|DIR",
      description =
          "The table, or the directory for tuning_{ranks}gpu_{type}.json (default: $NVRAR_CACHE_DIR,"
              + " else ~/.cache/nvrar).")
  private @Nullable Path output;

  @Option(names = "--json", description = "Print the result as JSON instead of a table.")
  private boolean json;

  /** For {@link java.util.ServiceLoader}. */
  public TuneCommand() {}

  @Override
  public Integer call() throws IOException, InterruptedException {
    backend = Devices.resolve(backend);
    @Nullable BackendUnavailableException cause = Devices.unavailabilityCause(backend);
    if (cause != null) {
      throw cause;
    }
    TuneSettings settings = settings();
    Path file = file(settings);
    before(file); // one that cannot be used is found before the measurement
    Path program =
        ProgramRun.program(Path.of(System.getProperty("nvrar.home", ".")), "nvrar_bench");
    long begin = System.nanoTime();
    PrintWriter err = spec.commandLine().getErr();
    BenchMeasurer bench = BenchMeasurer.start(program, settings);
    String run =
        String.format(
            Locale.ROOT,
            "%s, on %s %s, library %s, %s grid",
            settings,
            bench.architecture(),
            bench.device(),
            bench.library(),
            full ? "full" : "halved");
    List<Tuner.Found> found;
    Tuner tuner;
    try (Journal journal = journal(file, run, bench)) {
      if (resume) {
        err.println(
            String.format(Locale.ROOT, "nvrar: %d points are in the journal", journal.size()));
      }
      long budgetNanos = (budget != null ? budget : full ? FULL_BUDGET : BUDGET).toNanos();
      try (TuneProgress progress = new TuneProgress(err, budgetNanos)) {
        tuner = new Tuner(journal, System::nanoTime, budgetNanos, progress);
        found = tuner.run(candidates(settings), full);
      }
      // Read again: somebody may have changed it since.
      TuningTable table =
          Rules.merged(Rules.of(settings, bench.architecture(), found), before(file));
      TuningFile.write(file, table, command() + " on " + bench.device());
      journal.delete();
    }
    TuneReport report =
        new TuneReport(
            file.toString(),
            bench.architecture(),
            bench.device(),
            settings,
            tuner.points(),
            (System.nanoTime() - begin) / 1e9,
            tuner.isComplete(),
            found,
            top);
    PrintWriter out = spec.commandLine().getOut();
    if (json) {
      Gson gson = new GsonBuilder().setPrettyPrinting().create();
      out.println(gson.toJson(report.json()));
    } else {
      report.print(out);
    }
    for (Tuner.Found size : found) {
      for (Tuner.Measured wrong : size.wrong()) {
        err.println(
            String.format(
                Locale.ROOT,
                "nvrar: %d elements of %d bytes by %s were wrong: left out",
                wrong.timing().wrong(),
                size.bytes(),
                wrong.candidate()));
      }
    }
    return 0;
  }

  private static TuningTable before(Path file) {
    return Files.exists(file) ? TuningFile.read(file) : TuningTable.none();
  }

  private Journal journal(Path file, String run, BenchMeasurer bench) throws IOException {
    try {
      return Journal.open(Journal.of(file), run, resume, bench);
    } catch (IOException | RuntimeException e) {
      bench.close();
      throw e;
    }
  }

  private Map<Long, List<Candidate>> candidates(TuneSettings settings) {
    return settings.sizes().stream()
        .collect(
            Collectors.toMap(
                bytes -> bytes,
                bytes -> Grid.of(settings, bytes, full),
                (one, other) -> one,
                TreeMap::new));
  }

  private String command() {
    List<String> words =
        spec.commandLine().getParseResult().originalArgs().stream()
            .dropWhile(spec.name()::equals)
            .toList();
    return String.join(" ", List.of("bin/nvrar tune", String.join(" ", words))).strip();
  }

  private Path file(TuneSettings settings) throws IOException {
    String name = TuningCache.fileName(settings.ranks(), settings.type());
    Path place = output == null ? TuningCache.directory() : output;
    if (output == null) {
      Files.createDirectories(place);
    }
    if (Files.isDirectory(place)) {
      return place.resolve(name);
    }
    Path parent = place.toAbsolutePath().getParent();
    if (parent == null || !Files.isDirectory(parent)) {
      throw wrong(
          String.format(
              Locale.ROOT, "--output is %s, and there is no directory %s", place, parent));
    }
    return place;
  }

  private TuneSettings settings() {
    boolean onGpu = backend == Backend.CUDA;
    int count =
        ranks != null ? ranks : onGpu ? Math.min(CudaDevices.count(), Groups.MAX_NODE_SIZE) : 2;
    require(count, "--ranks", 2, Groups.MAX_NODE_SIZE);
    require(ranksPerNode, "--ranks-per-node", 0, Groups.MAX_NODE_SIZE);
    require(gpus, "--gpus", 0, Groups.MAX_NODE_SIZE);
    require(top, "--top", 1, MOST_TOP);
    if (gpus != 0 && !onGpu) {
      throw wrong("--gpus is for --backend cuda");
    }
    if (!onGpu && collective != Collective.ALL_REDUCE) {
      throw wrong(
          String.format(
              Locale.ROOT,
              "--collective is %s, and on the CPU only all-reduce has a choice",
              OptionNames.of(collective)));
    }
    long least = minBytes != null ? minBytes : onGpu ? GPU_LEAST_BYTES : LEAST_BYTES;
    long most = maxBytes != null ? maxBytes : onGpu ? GPU_MOST_BYTES : MOST_BYTES;
    if (least > most) {
      throw wrong(
          String.format(Locale.ROOT, "--min is %d bytes, more than --max, %d", least, most));
    }
    int step = factor != null ? factor : onGpu ? GPU_FACTOR : FACTOR;
    require(step, "--factor", 2, MOST_FACTOR);
    int ofNode = ranksPerNode == 0 || ranksPerNode > count ? count : ranksPerNode;
    DataType of = type != null ? type : onGpu ? DataType.BFLOAT16 : DataType.FLOAT32;
    return new TuneSettings(backend, count, ofNode, gpus, of, collective, least, most, step);
  }

  private void require(int value, String option, int least, int most) {
    if (value < least || value > most) {
      throw wrong(
          String.format(Locale.ROOT, "%s is %d, must be %d to %d", option, value, least, most));
    }
  }

  private ParameterException wrong(String sentence) {
    return new ParameterException(spec.commandLine(), sentence);
  }

  /** A time such as 60s, 5m or 90. */
  static final class Seconds implements ITypeConverter<Duration> {
    @Override
    public Duration convert(String text) {
      if (!text.matches("[1-9][0-9]{0,5}[sm]?")) {
        throw new TypeConversionException("'" + text + "', must be a time such as 60s or 5m");
      }
      char unit = text.charAt(text.length() - 1);
      String digits = Character.isDigit(unit) ? text : text.substring(0, text.length() - 1);
      long number = Long.parseLong(digits);
      return unit == 'm' ? Duration.ofMinutes(number) : Duration.ofSeconds(number);
    }
  }
}
