package io.nvrar.examples.llama;

import com.google.gson.JsonObject;
import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.examples.cluster.RayCluster;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.DecodeResults;
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
import io.nvrar.tools.bench.results.Report;
import io.nvrar.tools.bench.results.ResultLine;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
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

  @Override
  public Integer call() throws IOException, InterruptedException {
    options.check();
    prefill.check();
    Report report = new Report(Path.of(System.getProperty("nvrar.home", ".")), out(), err());
    Path from = options.from();
    if (from != null) {
      return report.ofFile(options.reports(), from);
    }
    ModelSource source = options.source();
    LlamaConfig config = source.config();
    options.check(config);
    DecodeCommand.check(source, config, options.ranks());
    JsonObject run = ResultLine.ofRun("", command(), Map.of());
    List<JsonObject> planned = new ArrayList<>(List.of(run));
    options.cells().forEach(cell -> planned.add(DecodeResults.planned(cell, options.ranks())));
    report.check(options.reports(), planned);
    DecodeResults results =
        new DecodeResults(run, lines -> report.ofLines(with(options.files(), "--quiet"), lines));
    try {
      measure(results, source, config);
      if (options.withTorch()) {
        besideTorch(results, report, config);
      }
    } catch (IOException | RuntimeException e) {
      // Such as that the actors' group cannot be closed: the finished cells are right.
      if (!results.isEmpty()) {
        try {
          print(results, report);
        } catch (IOException notPrinted) {
          e.addSuppressed(notPrinted);
        }
      }
      throw e;
    }
    return report.ofLines(options.reports(), results.lines());
  }

  private static List<String> with(List<String> arguments, String argument) {
    arguments.add(argument);
    return arguments;
  }

  private static void print(DecodeResults results, Report report)
      throws IOException, InterruptedException {
    try {
      report.ofLines(List.of(), results.lines());
    } catch (CollectiveException e) {
      // What is wrong is in the table, and said at the end.
    }
  }

  private void measure(DecodeResults results, ModelSource source, LlamaConfig config)
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
        measure(results, session, load, config);
      }
    }
  }

  private void measure(
      DecodeResults results, DecodeSession session, LoadRequest load, LlamaConfig config)
      throws IOException, InterruptedException {
    ModelSource source = load.model();
    int ranks = session.places().ranks();
    long bytes = DecodeCommand.bytes(source, config, ranks);
    Double given = options.bandwidth();
    double bandwidth = given == null ? session.readBandwidth() : given;
    long begin = System.nanoTime();
    try (WeightsProgress progress = WeightsProgress.loading(err(), bytes, ranks)) {
      session.load(load, progress::update);
      progress.complete();
    }
    double loadSeconds = (System.nanoTime() - begin) / GIGA;
    boolean fast = session.isFast();
    JsonObject decode = new JsonObject();
    decode.addProperty("model", source.toString());
    decode.addProperty("ranks", ranks);
    decode.addProperty("kernels", fast ? "fast" : "plain");
    decode.addProperty("weight_bytes", bytes);
    decode.addProperty("load_seconds", loadSeconds);
    decode.addProperty("bandwidth", bandwidth);
    decode.addProperty("is_bandwidth_measured", given == null);
    results.lines().get(0).addProperty("machine", session.gpuModel());
    results.lines().get(0).add("decode", decode);
    addFirstTokens(results, session);
    FloatFormat matrices = matrices(source, config);
    results.measure(
        DecodeResults.NVRAR,
        false,
        options.cells(),
        cell -> {
          StepFloor floor = StepFloor.of(config, ranks, cell, matrices, fast, bandwidth);
          List<JsonObject> lines = new ArrayList<>();
          for (String whose : options.allReduces()) {
            List<RankTimes> times =
                whose.equals(DecodeResults.NCCL)
                    ? session.measureWithNccl(cell, nccl())
                    : session.measure(cell);
            lines.add(said(cell, whose, DecodeResults.line(cell, whose, times, floor)));
          }
          BenchCell drawing = options.drawing(cell);
          if (drawing != null) {
            String whose = DecodeResults.DRAWING;
            List<RankTimes> times = session.measure(drawing);
            lines.add(said(cell, whose, DecodeResults.line(cell, whose, times, floor)));
          }
          return lines;
        });
    profile(results, session);
  }

  private void addFirstTokens(DecodeResults results, DecodeSession session) {
    for (int tokens : options.prompts()) {
      for (Prefill.Choice choice : prefill.choices()) {
        boolean bySlices = choice == Prefill.Choice.SLICES;
        String by = bySlices ? choice.label() : session.prefill();
        double millis = session.firstTokenSeconds(tokens, bySlices) * MILLIS;
        results.addFirstToken(tokens, by, millis);
        err()
            .printf(
                Locale.ROOT,
                "Prompt of %d, prefill by %s: the first token after %.1f ms.%n",
                tokens,
                by,
                millis);
      }
    }
  }

  private String nccl() throws InterruptedException {
    String named = options.nccl();
    return named == null ? NcclLibrary.find() : named;
  }

  private JsonObject said(BenchCell cell, String whose, JsonObject line) {
    err()
        .printf(
            Locale.ROOT,
            "Batch %d, context %d, all-reduces of %s: %.3f ms.%n",
            cell.batch(),
            cell.context(),
            whose,
            millis(line));
    return line;
  }

  private static double millis(JsonObject line) {
    return line.get("median").getAsDouble();
  }

  private void profile(DecodeResults results, DecodeSession session)
      throws IOException, InterruptedException {
    Path file = options.profile();
    if (file == null || results.hasFailed()) {
      return;
    }
    List<BenchCell> first = options.cells().subList(0, 1);
    double millis = millis(results.first().orElseThrow());
    results.measure(
        DecodeResults.NVRAR + "'s profile",
        false,
        first,
        cell -> {
          StepProfile profile = new StepProfile(cell, millis, session.trace(cell));
          profile.write(file);
          err().println(profile.sentence());
          return List.of();
        });
  }

  // On the same GPUs, once the actors have left them.
  private void besideTorch(DecodeResults results, Report report, LlamaConfig config)
      throws IOException, InterruptedException {
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    List<BenchCell> cells =
        options.cells().stream().filter(cell -> results.oursOf(cell).isPresent()).toList();
    if (cells.isEmpty()) {
      return;
    }
    int ranks = results.lines().get(0).getAsJsonObject("decode").get("ranks").getAsInt();
    String problem =
        options.nodes() > 1
            ? "which is measured on one node"
            : TorchDecode.problem(home, config, ranks);
    if (!problem.isEmpty()) {
      err().println("nvrar: left out: PyTorch, " + problem);
      return;
    }
    print(results, report);
    err().println("nvrar: now the same by PyTorch, which compiles for minutes");
    results.measure(
        "PyTorch",
        true,
        cells,
        cell -> TorchDecode.measure(home, config, cell, ranks, results.oursOf(cell).orElseThrow()));
  }

  private static FloatFormat matrices(ModelSource source, LlamaConfig config) {
    try (TensorSource tensors = source.open(bytes -> {})) {
      return RankTensors.of(config, Shard.of(config, 0, 1)).matrixFormat(tensors);
    }
  }

  private String command() {
    return command(commandSpec().commandLine().getParseResult().originalArgs());
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
