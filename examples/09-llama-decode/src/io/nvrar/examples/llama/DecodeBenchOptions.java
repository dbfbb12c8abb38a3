package io.nvrar.examples.llama;

import io.nvrar.TopK;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.DecodeResults;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.ModelShape;
import io.nvrar.examples.llama.weights.ModelSource;
import io.nvrar.examples.llama.weights.RandomModel;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of {@link DecodeBenchCommand}. */
final class DecodeBenchOptions {
  private static final int MAX_BATCH = 64;
  private static final int MAX_BLOCKS = 10_000;

  /** Bytes in a second, for what is surely a mistake in the unit. */
  private static final double MAX_TERABYTES = 100;

  private static final double TERA = 1e12;

  @Option(
      names = "--shape",
      paramLabel = "NAME",
      description = "Random weights of a shape of Llama 3.1: 8b, 70b or 405b (default: 8b).")
  private @Nullable String shape;

  @Option(
      names = "--config",
      paramLabel = "FILE",
      description = "Instead of --shape, random weights of a config.json.")
  private @Nullable String config;

  @Option(
      names = "--model",
      paramLabel = "DIR",
      description = "Instead of --shape, the weights of a Hugging Face directory.")
  private @Nullable Path model;

  @Option(
      names = "--layers",
      paramLabel = "N",
      description = "The layers of random weights (default: those of the configuration).")
  private @Nullable Integer layers;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      description =
          "Number of actors, each with a GPU, 1 to 8; divides the attention heads (default: as"
              + " many of up to 4 as the nodes of --nodes have and as divide the heads).")
  private @Nullable Integer ranks;

  @Mixin private NodesOption nodes = new NodesOption();

  @Option(
      names = "--batch",
      split = ",",
      paramLabel = "N",
      defaultValue = "1,8,32",
      description = "Sequences, 1 to 64; several in turn (default: ${DEFAULT-VALUE}).")
  private List<Integer> batches = List.of();

  @Option(
      names = "--context",
      split = ",",
      paramLabel = "N",
      defaultValue = "1024",
      description =
          "Positions that the last step of a block attends to, its own included, a multiple of 64;"
              + " several in turn (default: ${DEFAULT-VALUE}).")
  private List<Integer> contexts = List.of();

  @Option(
      names = "--all-reduce",
      split = ",",
      paramLabel = "WHOSE",
      defaultValue = DecodeResults.NVRAR,
      description =
          "Whose all-reduces our steps have: nvrar, nccl or both in turn (default:"
              + " ${DEFAULT-VALUE}). Behind NCCL's a kernel of its own adds and normalises.")
  private List<String> allReduces = List.of();

  @Option(
      names = "--temperature",
      paramLabel = "T",
      defaultValue = "0",
      description =
          "Also time steps whose tokens are drawn, at this temperature (default: 0, none).")
  private float temperature;

  @Option(
      names = "--top-k",
      paramLabel = "K",
      defaultValue = "0",
      description = "Drawn among the K likeliest tokens (default: 0, all).")
  private int topK;

  @Option(
      names = "--top-p",
      paramLabel = "P",
      defaultValue = "1",
      description = "Drawn among the likeliest tokens that have P together (default: 1, all).")
  private float topP;

  @Option(
      names = "--nccl",
      paramLabel = "FILE",
      description =
          "NCCL's library (default: that of python3's packages, else the one that the loader"
              + " finds).")
  private @Nullable String nccl;

  @Option(
      names = "--prompt-tokens",
      split = ",",
      paramLabel = "N",
      defaultValue = "128",
      description =
          "Tokens of the prompt whose first token is timed; several in turn (default:"
              + " ${DEFAULT-VALUE}).")
  private List<Integer> prompts = List.of();

  @Option(
      names = "--steps",
      paramLabel = "N",
      defaultValue = "32",
      description = "Timed steps of a block, 1 to 63 (default: ${DEFAULT-VALUE}).")
  private int steps;

  @Option(
      names = "--repeats",
      paramLabel = "N",
      defaultValue = "20",
      description = "Blocks of a cell (default: ${DEFAULT-VALUE}).")
  private int repeats;

  @Option(
      names = "--warmup",
      paramLabel = "N",
      defaultValue = "3",
      description = "Blocks before these that do not count (default: ${DEFAULT-VALUE}).")
  private int warmup;

  @Option(
      names = "--bandwidth",
      paramLabel = "TB/S",
      description =
          "Terabytes that a GPU reads in a second, for the floor (default: this is measured).")
  private @Nullable Double bandwidth;

  @Option(names = "--no-torch", description = "Without PyTorch, where python3 has it.")
  private boolean withoutTorch;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  @Option(names = "--csv", paramLabel = "FILE", description = "Also the table as CSV.")
  private @Nullable Path csv;

  @Option(names = "--json", paramLabel = "FILE", description = "Also all as lines of JSON.")
  private @Nullable Path json;

  @Option(
      names = "--document",
      paramLabel = "FILE",
      description = "Also all in this Markdown file, between its two marks.")
  private @Nullable Path document;

  @Option(
      names = "--profile",
      paramLabel = "FILE",
      description =
          "Also, for the first batch and context, when the kernels of a step end on each rank, as a"
              + " trace for Chrome or Perfetto.")
  private @Nullable Path profile;

  @Option(
      names = "--plots",
      paramLabel = "DIR",
      description = "Also pictures of the steps by batch, as PNG and SVG.")
  private @Nullable Path plots;

  @Option(
      names = "--from",
      paramLabel = "FILE",
      description = "Measure nothing: print, write and draw what --json has written to this file.")
  private @Nullable Path from;

  /** Checks what can be checked without the model. */
  void check() throws IOException {
    if (Stream.of(shape, config, model).filter(Objects::nonNull).count() > 1) {
      throw new ModelException("Give one of --shape, --config and --model.");
    }
    if (layers != null && model != null) {
      throw new ModelException("--layers is for random weights only: a model has its own.");
    }
    if (shape != null && ModelShape.labelled(shape).isEmpty()) {
      throw new ModelException(
          String.format(
              Locale.ROOT, "--shape is %s, and the shapes are %s.", shape, ModelShape.labels()));
    }
    require("--layers", layers == null ? 1 : layers, 1, Integer.MAX_VALUE);
    require("--ranks", ranks == null ? 1 : ranks, 1, Groups.MAX_NODE_SIZE);
    nodes.check(ranks == null ? Groups.MAX_NODE_SIZE : ranks);
    require("--steps", steps, 1, BenchCell.MAX_STEPS);
    require("--repeats", repeats, 1, MAX_BLOCKS);
    require("--warmup", warmup, 0, MAX_BLOCKS);
    requireDifferent("--batch", batches);
    requireDifferent("--context", contexts);
    requireDifferent("--prompt-tokens", prompts);
    requireDifferent("--all-reduce", allReduces);
    for (String whose : allReduces) {
      if (!whose.equals(DecodeResults.NVRAR) && !whose.equals(DecodeResults.NCCL)) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "--all-reduce is %s, and must be %s or %s.",
                whose,
                DecodeResults.NVRAR,
                DecodeResults.NCCL));
      }
    }
    if (temperature == 0 && (topK != 0 || topP != 1)) {
      throw new ModelException("--top-k and --top-p are for steps with a --temperature.");
    }
    // Checks them.
    new Sampling(temperature, topK, topP, 0);
    if (topK > TopK.MAX_K) {
      throw new ModelException(
          "--top-k is " + topK + ", and steps that feed themselves look at " + TopK.MAX_K + ".");
    }
    if (nccl != null && !allReduces.contains(DecodeResults.NCCL)) {
      throw new ModelException("--nccl is only for --all-reduce nccl.");
    }
    batches.forEach(batch -> require("--batch", batch, 1, MAX_BATCH));
    for (int context : contexts) {
      require("--context", context, BenchCell.CONTEXT_MULTIPLE, Integer.MAX_VALUE);
      if (context % BenchCell.CONTEXT_MULTIPLE != 0) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "--context is %d, and must be a multiple of %d.",
                context,
                BenchCell.CONTEXT_MULTIPLE));
      }
    }
    if (bandwidth != null && !(bandwidth > 0 && bandwidth <= MAX_TERABYTES)) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "--bandwidth is %s, and must be terabytes in a second, more than 0 and at most %.0f.",
              bandwidth,
              MAX_TERABYTES));
    }
    for (Path file : Stream.of(csv, json, profile).filter(Objects::nonNull).toList()) {
      Path directory = file.toAbsolutePath().getParent();
      if (directory == null || !Files.isDirectory(directory)) {
        throw new ModelException("There is no directory for " + file + ".");
      }
    }
    if (from != null && profile != null) {
      throw new ModelException("--from measures nothing, and --profile is a measurement.");
    }
  }

  /** Checks the rest. */
  void check(LlamaConfig of) {
    prompts.forEach(prompt -> require("--prompt-tokens", prompt, 1, of.maxPositions()));
    contexts.forEach(context -> require("--context", context, 1, of.maxPositions()));
  }

  ModelSource source() {
    if (model != null) {
      return ModelSource.of(model.toAbsolutePath().normalize());
    }
    String described = config != null ? config : shape != null ? shape : "8b";
    return ModelSource.of(RandomModel.of(described, layers, 0));
  }

  /** What is measured, in order. */
  List<BenchCell> cells() {
    List<BenchCell> cells = new ArrayList<>();
    for (int context : contexts) {
      for (int batch : batches) {
        cells.add(new BenchCell(batch, context, steps, warmup, repeats));
      }
    }
    return cells;
  }

  /** The steps of a cell whose tokens are drawn; null if none are wanted. */
  @Nullable BenchCell drawing(BenchCell cell) {
    return temperature > 0 ? cell.drawing(temperature, topK, topP) : null;
  }

  /** Whose all-reduces are measured in each cell, in order. */
  List<String> allReduces() {
    return allReduces;
  }

  /** NCCL's library; null to be searched for. */
  @Nullable String nccl() {
    return nccl;
  }

  /** How many actors the user wants; null if nothing was said. */
  @Nullable Integer ranks() {
    return ranks;
  }

  int nodes() {
    return nodes.nodes();
  }

  /** Tokens of the prompts whose first tokens are timed, in order. */
  List<Integer> prompts() {
    return prompts;
  }

  /** Bytes in a second; null to be measured. */
  @Nullable Double bandwidth() {
    return bandwidth == null ? null : bandwidth * TERA;
  }

  boolean withTorch() {
    return !withoutTorch;
  }

  @Nullable String address() {
    return address;
  }

  /** The options for the program that reports, of the files that are written after each cell. */
  List<String> files() {
    List<String> arguments = new ArrayList<>();
    add(arguments, "--csv", csv);
    add(arguments, "--json", json);
    add(arguments, "--document", document);
    return arguments;
  }

  /** The options for the program that reports. */
  List<String> reports() {
    List<String> arguments = files();
    add(arguments, "--plots", plots);
    return arguments;
  }

  private static void add(List<String> arguments, String option, @Nullable Path value) {
    if (value != null) {
      arguments.addAll(List.of(option, value.toString()));
    }
  }

  @Nullable Path profile() {
    return profile;
  }

  /** The report of an earlier run; null to measure. */
  @Nullable Path from() {
    return from;
  }

  private static void require(String option, int value, int least, int most) {
    if (value < least || value > most) {
      throw new ModelException(
          most == Integer.MAX_VALUE
              ? String.format(
                  Locale.ROOT, "%s is %d, and must be %d or more.", option, value, least)
              : String.format(
                  Locale.ROOT, "%s is %d, and must be %d to %d.", option, value, least, most));
    }
  }

  private static void requireDifferent(String option, List<?> values) {
    Set<Object> seen = new HashSet<>();
    for (Object value : values) {
      if (!seen.add(value)) {
        throw new ModelException(option + " has " + value + " twice.");
      }
    }
  }
}
