package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.examples.cluster.RayCluster;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.BenchReport;
import io.nvrar.examples.llama.bench.BenchRow;
import io.nvrar.examples.llama.bench.CellByCell;
import io.nvrar.examples.llama.bench.FirstToken;
import io.nvrar.examples.llama.bench.NcclLibrary;
import io.nvrar.examples.llama.bench.RankTimes;
import io.nvrar.examples.llama.bench.StepFloor;
import io.nvrar.examples.llama.bench.StepProfile;
import io.nvrar.examples.llama.bench.TorchDecode;
import io.nvrar.examples.llama.engine.cuda.Prefill;
import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelSource;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import io.nvrar.tools.NvrarCommand;
import io.nvrar.tools.bench.results.MarkedPage;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code nvrar decode-bench}: how fast a decode step is on the GPUs of Ray actors. */
@Command(
    name = "decode-bench",
    mixinStandardHelpOptions = true,
    description = {
      "Time the decode steps of a tensor-parallel Llama on Ray actors, each with a GPU: greedy steps"
          + " that feed themselves, replayed from a CUDA graph.",
      "Time: of a block of steps between two events on the GPU, after a step that is not timed; all"
          + " blocks are enqueued ahead, so that no step waits for the host. Of the ranks the"
          + " slowest, of the blocks the median. Each block begins at the same position; the keys and"
          + " values before it are random numbers in place of a prefill.",
      "Floor: the time in which a GPU reads the weights of its rank, and the keys and values that a"
          + " step attends to. Without: the same steps without their all-reduces, which compute"
          + " nothing that is right.",
      "Files are written after each cell, and finished cells are kept if a later one fails.",
      "In the same run the tokens of the timed steps are compared with those of a decode on all"
          + " ranks, and of steps that the host feeds."
    })
public final class DecodeBenchCommand implements NvrarCommand {
  /** Tokens, logits of the steps that the host feeds, and Ray's classes; no weights. */
  private static final String HEAP = "2g";

  private static final double GIGA = 1e9;
  private static final double MILLIS = 1e3;

  /** What a shell takes as it is. */
  private static final Pattern PLAIN_WORD = Pattern.compile("[A-Za-z0-9_@%+=:,./-]+");

  @Mixin private DecodeBenchOptions options = new DecodeBenchOptions();
  @Mixin private PrefillOptions prefill = new PrefillOptions();
  @Spec private @Nullable CommandSpec spec;

  /** The report of the cells that are finished. */
  private @Nullable BenchReport kept;

  @Override
  public Integer call() throws IOException, InterruptedException {
    options.check();
    prefill.check();
    Path from = options.from();
    if (from != null) {
      return ended(BenchReport.read(from), true);
    }
    ModelSource source = options.source();
    LlamaConfig config = source.config();
    options.check(config);
    DecodeCommand.check(source, config, options.ranks());
    BenchReport report;
    try {
      BenchReport ours = measured(source, config);
      report = options.withTorch() ? besideTorch(ours, config) : ours;
    } catch (IOException | RuntimeException e) {
      // Such as that the actors' group cannot be closed: the finished cells are right.
      if (kept != null) {
        kept.print(out());
      }
      throw e;
    }
    return ended(report, false);
  }

  private int ended(BenchReport report, boolean write) throws IOException {
    if (write) {
      write(report);
    }
    report.print(out());
    if (!report.problem().isEmpty()) {
      throw new CollectiveException(report.problem());
    }
    Path plots = options.plots();
    if (plots != null) {
      report.draw(plots);
    }
    return 0;
  }

  private BenchReport measured(ModelSource source, LlamaConfig config)
      throws IOException, InterruptedException {
    List<int[]> capacities = new ArrayList<>();
    options.prompts().forEach(tokens -> capacities.add(new int[] {tokens}));
    options.cells().forEach(cell -> capacities.add(cell.capacities()));
    LoadRequest load = new LoadRequest(source, prefill.most(), capacities.toArray(int[][]::new));
    RayCluster cluster = RayCluster.connect(options.address());
    try (cluster) {
      ActorPlaces places =
          ActorPlaces.choose(Backend.CUDA, options.ranks(), options.nodes(), config);
      try (DecodeSession session = DecodeSession.open(places, HEAP, load)) {
        return measured(session, load, config);
      }
    }
  }

  private BenchReport measured(DecodeSession session, LoadRequest load, LlamaConfig config)
      throws IOException, InterruptedException {
    ModelSource source = load.model();
    int ranks = session.places().ranks();
    long bytes = DecodeCommand.bytes(source, config, ranks);
    String gpu = session.gpuModel();
    Double given = options.bandwidth();
    double bandwidth = given == null ? session.readBandwidth() : given;
    long begin = System.nanoTime();
    try (WeightsProgress progress = WeightsProgress.loading(err(), bytes, ranks)) {
      session.load(load, progress::update);
      progress.complete();
    }
    double loadSeconds = (System.nanoTime() - begin) / GIGA;
    boolean fast = session.isFast();
    FloatFormat matrices = matrices(source, config);
    BenchReport begun =
        new BenchReport(
            command(commandSpec().commandLine().getParseResult().originalArgs()),
            source.toString(),
            gpu,
            ranks,
            fast ? "fast" : "plain",
            bytes,
            loadSeconds,
            bandwidth,
            given == null,
            firstTokens(session),
            List.of(),
            List.of());
    BenchReport report =
        new CellByCell(BenchRow.NVRAR, false, this::write)
            .measure(
                begun,
                options.cells(),
                cell -> {
                  StepFloor floor = StepFloor.of(config, ranks, cell, matrices, fast, bandwidth);
                  List<BenchRow> rows = new ArrayList<>();
                  for (String whose : options.allReduces()) {
                    List<RankTimes> times =
                        whose.equals(BenchRow.NCCL)
                            ? session.measureWithNccl(cell, nccl())
                            : session.measure(cell);
                    rows.add(said(BenchRow.of(cell, whose, times, floor)));
                  }
                  BenchCell drawing = options.drawing(cell);
                  if (drawing != null) {
                    List<RankTimes> times = session.measure(drawing);
                    rows.add(said(BenchRow.of(cell, BenchRow.NVRAR, times, floor).ofDrawing()));
                  }
                  return rows;
                });
    return profiled(session, report);
  }

  private List<FirstToken> firstTokens(DecodeSession session) {
    List<FirstToken> firstTokens = new ArrayList<>();
    for (int tokens : options.prompts()) {
      for (Prefill.Choice choice : prefill.choices()) {
        boolean bySlices = choice == Prefill.Choice.SLICES;
        FirstToken first =
            new FirstToken(
                bySlices ? choice.label() : session.prefill(),
                tokens,
                session.firstTokenSeconds(tokens, bySlices));
        err()
            .printf(
                Locale.ROOT,
                "Prompt of %d, prefill by %s: the first token after %.1f ms.%n",
                first.promptTokens(),
                first.prefill(),
                first.seconds() * MILLIS);
        firstTokens.add(first);
      }
    }
    return firstTokens;
  }

  private String nccl() throws InterruptedException {
    String named = options.nccl();
    return named == null ? NcclLibrary.find() : named;
  }

  private BenchRow said(BenchRow row) {
    err()
        .printf(
            Locale.ROOT,
            "Batch %d, context %d, all-reduces of %s: %.3f ms.%n",
            row.batch(),
            row.context(),
            row.allReduce(),
            row.millis());
    return row;
  }

  private BenchReport profiled(DecodeSession session, BenchReport report)
      throws IOException, InterruptedException {
    Path file = options.profile();
    if (file == null || !report.failures().isEmpty()) {
      return report;
    }
    double millis = report.results().get(0).millis();
    return new CellByCell(BenchRow.NVRAR + "'s profile", false, this::write)
        .measure(
            report,
            options.cells().subList(0, 1),
            cell -> {
              StepProfile profile = new StepProfile(cell, millis, session.trace(cell));
              profile.write(file);
              err().println(profile.sentence());
              return List.of();
            });
  }

  // On the same GPUs, once the actors have left them.
  private BenchReport besideTorch(BenchReport ours, LlamaConfig config)
      throws IOException, InterruptedException {
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    String problem =
        options.nodes() > 1
            ? "which is measured on one node"
            : TorchDecode.problem(home, config, ours.ranks());
    if (!problem.isEmpty()) {
      err().println("nvrar: left out: PyTorch, " + problem);
      return ours;
    }
    List<BenchCell> cells =
        options.cells().stream().filter(cell -> ours.rowOf(cell).isPresent()).toList();
    if (cells.isEmpty()) {
      return ours;
    }
    ours.print(out());
    err().println("nvrar: now the same by PyTorch, which compiles for minutes");
    return new CellByCell("PyTorch", true, this::write)
        .measure(
            ours,
            cells,
            cell -> TorchDecode.measure(home, config, cell, ours.rowOf(cell).orElseThrow()));
  }

  private static FloatFormat matrices(ModelSource source, LlamaConfig config) {
    try (TensorSource tensors = source.open(bytes -> {})) {
      return RankTensors.of(config, Shard.of(config, 0, 1)).matrixFormat(tensors);
    }
  }

  private void write(BenchReport report) throws IOException {
    kept = report;
    Path json = options.json();
    if (json != null) {
      report.writeJson(json);
    }
    Path csv = options.csv();
    if (csv != null) {
      report.writeCsv(csv);
    }
    MarkedPage page = options.document();
    if (page != null) {
      page.write(report.markdown());
    }
  }

  /**
   * What the user has typed, for a shell. Below the launcher's root command the arguments begin
   * with this command's name; the address of a private cluster is the launcher's.
   */
  static String command(List<String> arguments) {
    List<String> words = new ArrayList<>(List.of("bin/nvrar", "decode-bench"));
    for (int i = 0; i < arguments.size(); i++) {
      String word = arguments.get(i);
      if (word.equals("--address")) {
        i++;
      } else if (!word.startsWith("--address=") && !(i == 0 && word.equals("decode-bench"))) {
        words.add(
            PLAIN_WORD.matcher(word).matches() ? word : "'" + word.replace("'", "'\\''") + "'");
      }
    }
    return String.join(" ", words);
  }

  private PrintWriter out() {
    return commandSpec().commandLine().getOut();
  }

  private PrintWriter err() {
    return commandSpec().commandLine().getErr();
  }

  private CommandSpec commandSpec() {
    if (spec == null) {
      throw new IllegalStateException("the command line has not set the command's spec");
    }
    return spec;
  }
}
