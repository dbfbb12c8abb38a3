package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.BenchReport;
import io.nvrar.examples.llama.bench.BenchRow;
import io.nvrar.examples.llama.bench.RankTimes;
import io.nvrar.examples.llama.bench.StepFloor;
import io.nvrar.examples.llama.bench.StepProfile;
import io.nvrar.examples.llama.bench.TorchDecode;
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
          + " step attends to. Without all-reduces: the same steps in a group of each rank alone,"
          + " whose calls add and normalise, but send nothing.",
      "In the same run the tokens of the timed steps are compared with those of a decode on all"
          + " ranks, and of steps that the host feeds."
    })
public final class DecodeBenchCommand implements NvrarCommand {
  /** Tokens, logits of the steps that the host feeds, and Ray's classes; no weights. */
  private static final String HEAP = "2g";

  private static final double GIGA = 1e9;

  @Mixin private DecodeBenchOptions options = new DecodeBenchOptions();
  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws IOException, InterruptedException {
    options.check();
    ModelSource source = options.source();
    LlamaConfig config = source.config();
    options.check(config);
    Integer wanted = options.ranks();
    DecodeCommand.checkedBytes(source, config, wanted == null ? 1 : wanted);
    BenchReport ours = measured(source, config);
    BenchReport report = options.withTorch() ? besideTorch(ours, config) : ours;
    report.print(out());
    write(report);
    for (BenchRow row : report.results()) {
      if (row.isOurs() && !row.problem().isEmpty()) {
        throw new CollectiveException(
            "at batch %d and context %d %s".formatted(row.batch(), row.context(), row.problem()));
      }
    }
    return 0;
  }

  private BenchReport measured(ModelSource source, LlamaConfig config) throws IOException {
    RayCluster cluster = RayCluster.connect(options.address());
    try (cluster) {
      ActorPlaces places = ActorPlaces.choose(Backend.CUDA, options.ranks(), 1, config);
      long bytes = DecodeCommand.checkedBytes(source, config, places.ranks());
      try (DecodeSession session = DecodeSession.open(places, HEAP)) {
        return measured(session, source, config, places.ranks(), bytes);
      }
    }
  }

  private void profile(DecodeSession session, BenchRow first) throws IOException {
    Path file = options.profile();
    if (file != null) {
      BenchCell cell = options.cells().get(0);
      StepProfile profile = new StepProfile(cell, first.millis(), session.trace(cell));
      profile.write(file);
      err().println(profile.sentence());
    }
  }

  private BenchReport measured(
      DecodeSession session, ModelSource source, LlamaConfig config, int ranks, long bytes)
      throws IOException {
    String gpu = session.gpuModel();
    Double given = options.bandwidth();
    double bandwidth = given == null ? session.readBandwidth() : given;
    long begin = System.nanoTime();
    try (WeightsProgress progress = WeightsProgress.loading(err(), bytes, ranks)) {
      session.load(source, progress::update);
      progress.complete();
    }
    double loadSeconds = (System.nanoTime() - begin) / GIGA;
    double firstToken = session.firstTokenSeconds(options.prompt());
    FloatFormat matrices = matrices(source, config);
    List<BenchRow> rows = new ArrayList<>();
    boolean fast = false;
    for (BenchCell cell : options.cells()) {
      List<RankTimes> times = session.measure(cell);
      fast = times.get(0).fast();
      StepFloor floor = StepFloor.of(config, ranks, cell, matrices, fast, bandwidth);
      BenchRow row = BenchRow.of(cell, times, floor);
      err()
          .printf(
              Locale.ROOT,
              "Batch %d, context %d: %.3f ms.%n",
              row.batch(),
              row.context(),
              row.millis());
      rows.add(row);
    }
    profile(session, rows.get(0));
    return new BenchReport(
        command(),
        source.toString(),
        gpu,
        ranks,
        fast ? "fast" : "plain",
        bytes,
        loadSeconds,
        bandwidth,
        given == null,
        options.prompt(),
        firstToken,
        rows);
  }

  // On the same GPUs, once the actors have left them.
  private BenchReport besideTorch(BenchReport ours, LlamaConfig config)
      throws InterruptedException {
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    String problem = TorchDecode.problem(home, config, ours.ranks());
    if (problem.isEmpty()) {
      ours.print(out());
      err().println("nvrar: now the same by PyTorch, which compiles for minutes");
      try {
        return ours.beside(TorchDecode.measure(home, config, options.cells(), ours.results()));
      } catch (IOException e) {
        problem = String.valueOf(e.getMessage());
      }
    }
    err().println("nvrar: left out: PyTorch, " + problem);
    return ours;
  }

  private static FloatFormat matrices(ModelSource source, LlamaConfig config) {
    try (TensorSource tensors = source.open(bytes -> {})) {
      return RankTensors.of(config, Shard.of(config, 0, 1)).matrixFormat(tensors);
    }
  }

  private void write(BenchReport report) throws IOException {
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

  // Below the launcher's root command the arguments begin with this command's name; the address of
  // a
  // private cluster is the launcher's.
  private String command() {
    List<String> words = new ArrayList<>(List.of("bin/nvrar", "decode-bench"));
    boolean isAddress = false;
    for (String word : commandSpec().commandLine().getParseResult().originalArgs()) {
      if (!isAddress && !word.equals("--address") && !word.equals("decode-bench")) {
        words.add(word);
      }
      isAddress = word.equals("--address");
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
