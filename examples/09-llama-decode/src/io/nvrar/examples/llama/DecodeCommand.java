package io.nvrar.examples.llama;

import io.nvrar.examples.cluster.RayCluster;
import io.nvrar.examples.llama.engine.cuda.Prefill;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.text.LlamaTokenizer;
import io.nvrar.examples.llama.text.NpyWriter;
import io.nvrar.examples.llama.text.StreamingDetokenizer;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaTensors;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.ModelSource;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import io.nvrar.tools.NvrarCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/**
 * The driver: checks the model and the prompts, starts the actors, prints what they decode. All
 * input is checked before an actor starts.
 */
@Command(
    name = "decode",
    description = "Decode text with a tensor-parallel Llama on Ray actors.",
    mixinStandardHelpOptions = true)
public final class DecodeCommand implements NvrarCommand {
  @Mixin private DecodeOptions options = new DecodeOptions();
  @Mixin private PrefillOptions prefill = new PrefillOptions();
  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws IOException {
    options.check();
    prefill.check();
    Prefill wanted = prefill.one();
    ModelSource model = options.model();
    LlamaConfig config = model.config();
    Integer wantedRanks = options.ranks();
    check(model, config, wantedRanks);
    List<String> prompts = options.prompts();
    try (LlamaTokenizer tokenizer = prompts.isEmpty() ? null : tokenizer(model)) {
      DecodeRequest request = request(tokenizer, prompts);
      request.check(config);
      requireRoomForLogits(config, request.sequences());
      RayCluster cluster = RayCluster.connect(options.address());
      try (cluster) {
        ActorPlaces places =
            ActorPlaces.choose(options.backend(), wantedRanks, options.nodes(), config);
        LoadRequest load = new LoadRequest(model, wanted, request.capacities());
        try (DecodeSession session =
            places.open(
                wantedRanks,
                where -> DecodeSession.open(where, ActorHeap.size(config, where, request), load),
                err()::println)) {
          new Run(model, config, request, prompts, tokenizer, session.places()).in(session, load);
        }
      }
    }
    return 0;
  }

  private static LlamaTokenizer tokenizer(ModelSource model) {
    Path directory = model.directory();
    if (directory == null) {
      throw new ModelException("Random weights have no tokenizer: give --prompt-ids.");
    }
    return LlamaTokenizer.read(directory);
  }

  /**
   * Checks all tensors, and that the model can be spread over ranks.
   *
   * @param ranks as many as the user wants; null if nothing was said
   */
  static void check(ModelSource model, LlamaConfig config, @Nullable Integer ranks) {
    try (TensorSource tensors = model.open(bytes -> {})) {
      LlamaTensors.check(tensors, config);
    }
    Shard.requireDivisible(config, ranks == null ? 1 : ranks);
  }

  /** The bytes that all ranks together will read of tensors that were checked. */
  static long bytes(ModelSource model, LlamaConfig config, int ranks) {
    try (TensorSource tensors = model.open(bytes -> {})) {
      long bytes = 0;
      for (int rank = 0; rank < ranks; rank++) {
        Shard shard = Shard.of(config, rank, ranks);
        bytes += RankTensors.of(config, shard).sourceBytes(tensors);
      }
      return bytes;
    }
  }

  private void requireRoomForLogits(LlamaConfig config, int prompts) throws IOException {
    List<Path> files = options.logits(prompts);
    if (!files.isEmpty()) {
      Path file = files.get(0);
      long bytes = prompts * NpyWriter.bytes(options.maxTokens(), config.vocabularySize());
      Path directory = file.toAbsolutePath().getParent();
      long free = Files.getFileStore(directory == null ? file : directory).getUsableSpace();
      if (bytes > free) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s would have up to %d bytes, and its disk has %d free: %d bytes are missing.",
                file,
                bytes,
                free,
                bytes - free));
      }
    }
  }

  private DecodeRequest request(@Nullable LlamaTokenizer tokenizer, List<String> prompts) {
    List<int[]> ids = new ArrayList<>(options.promptIds());
    for (String prompt : prompts) {
      if (tokenizer != null) {
        ids.add(tokenizer.encode(prompt));
      }
    }
    return new DecodeRequest(
        ids.toArray(int[][]::new),
        options.maxTokens(),
        options.ignoreEnd(),
        options.keepsLogits(),
        options.sampling());
  }

  /** One request from loading to the summary. */
  private final class Run {
    private final ModelSource model;
    private final LlamaConfig config;
    private final DecodeRequest request;
    private final List<String> prompts;
    private final ActorPlaces places;
    private final List<Generated> outputs = new ArrayList<>();

    /** The sequences of the tokens, in the order in which these came. */
    private final List<Integer> order = new ArrayList<>();

    private long firstTokenNanos;

    Run(
        ModelSource model,
        LlamaConfig config,
        DecodeRequest request,
        List<String> prompts,
        @Nullable LlamaTokenizer tokenizer,
        ActorPlaces places) {
      this.model = model;
      this.config = config;
      this.request = request;
      this.prompts = prompts;
      this.places = places;
      List<Integer> endTokens = options.ignoreEnd() ? List.of() : config.endTokens();
      for (int i = 0; i < request.sequences(); i++) {
        StreamingDetokenizer detokenizer =
            tokenizer == null
                ? null
                : new StreamingDetokenizer(tokenizer::decode, request.prompt(i));
        outputs.add(new Generated(detokenizer, request.maxTokens(), endTokens));
      }
    }

    void in(DecodeSession session, LoadRequest load) throws IOException {
      long bytes = bytes(model, config, places.ranks());
      try (WeightsProgress progress = WeightsProgress.loading(err(), bytes, places.ranks())) {
        session.load(load, progress::update);
        progress.complete();
      }
      double startup = secondsSinceStart();
      StreamedOutput streamed = options.json() ? null : new StreamedOutput(out(), beginnings());
      long begin = System.nanoTime();
      try {
        session.decode(request, (sequence, token) -> onToken(streamed, sequence, token));
      } catch (RuntimeException | Error e) {
        if (streamed != null) {
          streamed.breakOff();
        }
        throw e;
      }
      writeLogits(session);
      DecodeSummary summary =
          DecodeSummary.of(
              startup,
              (firstTokenNanos - begin) / 1e9,
              session.prefill(),
              request.sequences(),
              session.times());
      report(summary);
    }

    private void onToken(@Nullable StreamedOutput streamed, int sequence, int token) {
      if (firstTokenNanos == 0) {
        firstTokenNanos = System.nanoTime();
      }
      order.add(sequence);
      Generated output = outputs.get(sequence);
      boolean first = output.tokens().isEmpty();
      String text = output.add(token);
      if (streamed != null) {
        streamed.add(sequence, options.printIds() ? (first ? "" : ",") + token : text);
        if (output.isFinished()) {
          streamed.finish(sequence);
        }
      }
    }

    private List<String> beginnings() {
      List<String> beginnings = new ArrayList<>();
      for (int i = 0; i < request.sequences(); i++) {
        if (options.printIds()) {
          beginnings.add("");
        } else {
          String heading =
              request.sequences() == 1 ? "" : String.format(Locale.ROOT, "[%d] ", i + 1);
          beginnings.add(heading + prompts.get(i));
        }
      }
      return beginnings;
    }

    private void writeLogits(DecodeSession session) throws IOException {
      List<NpyWriter> writers = new ArrayList<>();
      try {
        for (Path file : options.logits(request.sequences())) {
          writers.add(new NpyWriter(file, config.vocabularySize()));
        }
        for (int i = 0; i < order.size() && !writers.isEmpty(); i++) {
          writers.get(order.get(i)).append(session.nextLogits());
        }
      } finally {
        for (NpyWriter writer : writers) {
          writer.close();
        }
      }
    }

    private void report(DecodeSummary summary) {
      if (options.json()) {
        JsonReport report =
            new JsonReport(model.toString(), places.ranks(), places.onGpus(), options.usedSeed());
        for (int i = 0; i < outputs.size(); i++) {
          report.add(request, i, prompts.isEmpty() ? null : prompts.get(i), outputs.get(i));
        }
        report.add(summary);
        out().println(report);
      } else {
        Long seed = options.usedSeed();
        err().println(summary.sentence() + (seed == null ? "" : " Seed " + seed + "."));
      }
    }
  }

  private static double secondsSinceStart() {
    return ManagementFactory.getRuntimeMXBean().getUptime() / 1e3;
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
