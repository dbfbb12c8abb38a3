package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.ModelSource;
import io.nvrar.examples.llama.weights.RandomModel;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of {@link DecodeCommand}. */
final class DecodeOptions {
  /** Where the shipped model lies below {@code nvrar.home}. */
  private static final String SHIPPED_MODEL = "examples/09-llama-decode/model/tiny-english";

  /** In the style of the shipped model's training text. */
  private static final String DEFAULT_PROMPT = "Wickham walked into the room,";

  @Option(
      names = "--model",
      paramLabel = "DIR",
      description = "A Hugging Face directory of a Llama (default: the small model shipped here).")
  private @Nullable Path model;

  @Option(
      names = "--random-weights",
      paramLabel = "CONFIG",
      description =
          "Instead of a model, random weights of a config.json or of a shape of Llama 3.1: 8b, 70b"
              + " or 405b. Needs --prompt-ids.")
  private @Nullable String randomWeights;

  @Option(
      names = "--layers",
      paramLabel = "N",
      description = "The layers of --random-weights (default: those of the configuration).")
  private @Nullable Integer layers;

  @Option(
      names = "--weights-seed",
      paramLabel = "N",
      defaultValue = "0",
      description = "What --random-weights are made from (default: ${DEFAULT-VALUE}).")
  private long weightsSeed;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      description =
          "Number of actors, 1 to 8; divides the attention heads (default: 4, on GPUs as many of up"
              + " to 4 as the nodes of --nodes have and as divide the heads).")
  private @Nullable Integer ranks;

  @Mixin private NodesOption nodes = new NodesOption();

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      defaultValue = "AUTO",
      description = "auto, cpu or cuda (default: auto, which is cuda where it can run).")
  private Backend backend = Backend.AUTO;

  @Option(
      names = "--prompt",
      paramLabel = "TEXT",
      description =
          "The text to continue; repeat the option for several at once (default: '"
              + DEFAULT_PROMPT
              + "').")
  private List<String> prompts = new ArrayList<>();

  @Option(
      names = "--prompt-ids",
      paramLabel = "1,2,3",
      description = "A prompt as token ids, used unchanged; needs no tokenizer. Repeatable.")
  private List<String> promptIds = new ArrayList<>();

  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      defaultValue = "80",
      description = "The most tokens to generate for each prompt (default: ${DEFAULT-VALUE}).")
  private int maxTokens;

  @Option(
      names = "--temperature",
      paramLabel = "T",
      defaultValue = "0",
      description =
          "0 always chooses the likeliest token, a larger value is more random (default: 0).")
  private double temperature;

  @Option(
      names = "--top-k",
      paramLabel = "K",
      defaultValue = "0",
      description = "Choose among the K likeliest tokens (default: 0, all).")
  private int topK;

  @Option(
      names = "--top-p",
      paramLabel = "P",
      defaultValue = "1",
      description = "Choose among the likeliest tokens that have P together (default: 1, all).")
  private double topP;

  @Option(
      names = "--seed",
      paramLabel = "N",
      description = "The seed of random choices (default: another one each time).")
  private @Nullable Long seed;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  @Option(names = "--print-ids", description = "Print the generated tokens' numbers, not text.")
  private boolean printIds;

  @Option(names = "--ignore-eos", description = "Continue after an end token.")
  private boolean ignoreEnd;

  @Option(
      names = "--logits",
      paramLabel = "FILE.npy",
      description =
          "Write float32 logits; token i was chosen from row i. Of several prompts FILE-1.npy,"
              + " FILE-2.npy and so on.")
  private @Nullable Path logits;

  @Option(names = "--json", description = "Print one JSON object and nothing else.")
  private boolean json;

  /** Checks what can be checked without the model; fills in the seed. */
  void check() {
    if (ranks != null && (ranks < 1 || ranks > Groups.MAX_NODE_SIZE)) {
      throw new ModelException(
          "There were to be "
              + ranks
              + " ranks, and this command takes 1 to "
              + Groups.MAX_NODE_SIZE
              + ".");
    }
    nodes.check(ranks == null ? ActorPlaces.RANKS_DEFAULT : ranks);
    if (model != null && randomWeights != null) {
      throw new ModelException("Give either --model or --random-weights, not both.");
    }
    if (layers != null && randomWeights == null) {
      throw new ModelException("--layers is for --random-weights only: a model has its own.");
    }
    if (!prompts.isEmpty() && !promptIds.isEmpty()) {
      throw new ModelException("Give either --prompt or --prompt-ids, not both.");
    }
    for (String prompt : prompts) {
      // Java inserts this character for bytes that it cannot decode; the model would then continue
      // a different text.
      if (prompt.indexOf('\uFFFD') >= 0 && !isOnCommandLine(prompt)) {
        throw new ModelException("--prompt '" + prompt + "' is not text in UTF-8.");
      }
    }
    logits(Math.max(1, Math.max(prompts.size(), promptIds.size())))
        .forEach(DecodeOptions::checkLogits);
    if (temperature != 0 && seed == null) {
      seed = (long) ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE);
    }
  }

  private static void checkLogits(Path file) {
    Path directory = file.toAbsolutePath().getParent();
    if (directory == null || !Files.isDirectory(directory)) {
      throw new ModelException("There is no directory for " + file + ".");
    }
    if (Files.isDirectory(file)) {
      throw new ModelException("--logits takes a file, and " + file + " is a directory.");
    }
    if (!Files.isWritable(Files.exists(file) ? file : directory)) {
      throw new ModelException("--logits " + file + " cannot be written.");
    }
  }

  /** Whether this process was started with this very text, and not with bytes that are no UTF-8. */
  private static boolean isOnCommandLine(String text) {
    try {
      return isOnCommandLine(text, Files.readAllBytes(Path.of("/proc/self/cmdline")));
    } catch (IOException e) {
      throw new ModelException("/proc/self/cmdline cannot be read: " + e + ".", e);
    }
  }

  static boolean isOnCommandLine(String text, byte[] commandLine) {
    // Of arguments with a 0 behind each, which one has the text is one and the same.
    String bytes = new String(commandLine, StandardCharsets.ISO_8859_1);
    return bytes.contains(
        new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1));
  }

  ModelSource model() {
    if (randomWeights != null) {
      return ModelSource.of(RandomModel.of(randomWeights, layers, weightsSeed));
    }
    return ModelSource.of((model == null ? shippedModel() : model).toAbsolutePath().normalize());
  }

  private static Path shippedModel() {
    String home = System.getProperty("nvrar.home");
    if (home == null) {
      throw new ModelException("Give --model DIR: the shipped model is known to bin/nvrar only.");
    }
    return Path.of(home).resolve(SHIPPED_MODEL);
  }

  /** How many actors the user wants; null if nothing was said. */
  @Nullable Integer ranks() {
    return ranks;
  }

  Backend backend() {
    return backend;
  }

  int nodes() {
    return nodes.nodes();
  }

  /** The texts to continue; empty if tokens are given instead. */
  List<String> prompts() {
    return prompts.isEmpty() && promptIds.isEmpty() ? List.of(DEFAULT_PROMPT) : prompts;
  }

  /** The prompts given as tokens. */
  List<int[]> promptIds() {
    List<int[]> parsed = new ArrayList<>();
    for (String ids : promptIds) {
      String[] numbers = ids.split(",", -1);
      int[] tokens = new int[numbers.length];
      for (int i = 0; i < numbers.length; i++) {
        try {
          tokens[i] = Integer.parseInt(numbers[i].strip());
        } catch (NumberFormatException e) {
          throw new ModelException(
              "--prompt-ids takes numbers with commas between them, and '" + ids + "' is not so.",
              e);
        }
      }
      parsed.add(tokens);
    }
    return parsed;
  }

  int maxTokens() {
    return maxTokens;
  }

  Sampling sampling() {
    return new Sampling(temperature, topK, topP, seed == null ? 0 : seed);
  }

  /** The seed, if anything depends on it. */
  @Nullable Long usedSeed() {
    return temperature == 0 ? null : seed;
  }

  @Nullable String address() {
    return address;
  }

  boolean printIds() {
    return printIds || !promptIds.isEmpty();
  }

  boolean ignoreEnd() {
    return ignoreEnd;
  }

  /** Where the logits of each of so many prompts go; empty if nobody wants them. */
  List<Path> logits(int count) {
    Path file = logits;
    if (file == null) {
      return List.of();
    }
    if (count == 1) {
      return List.of(file);
    }
    String name = String.valueOf(file.getFileName());
    int dot = name.lastIndexOf('.') < 0 ? name.length() : name.lastIndexOf('.');
    return IntStream.rangeClosed(1, count)
        .mapToObj(i -> file.resolveSibling(name.substring(0, dot) + "-" + i + name.substring(dot)))
        .toList();
  }

  boolean keepsLogits() {
    return logits != null;
  }

  boolean json() {
    return json;
  }
}
