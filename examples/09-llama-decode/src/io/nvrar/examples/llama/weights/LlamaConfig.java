package io.nvrar.examples.llama.weights;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * What {@code config.json} of a Llama, or of a {@link ModelFamily} that differs little from it,
 * says in the spellings of transformers 4 and 5.
 *
 * @param vocabularySize rows of the embedding, and numbers in a row of logits
 * @param hiddenSize numbers in the residual stream of one token
 * @param intermediateSize width of the MLP
 * @param layers number of layers
 * @param heads query heads of a layer
 * @param keyValueHeads key/value heads of a layer; divides {@code heads}
 * @param headSize numbers in one head
 * @param maxPositions the longest sequence, prompt and generated tokens together
 * @param normEpsilon what RMSNorm adds to the mean square
 * @param rope the rotation of positions
 * @param tiedEmbeddings whether the embedding is the output head too
 * @param queryKeyValueBias whether q, k and v projections have biases
 * @param attentionOutputBias whether the o projection has a bias
 * @param mlpBias whether gate, up and down projections have biases
 * @param endTokens the tokens that end a sequence
 */
public record LlamaConfig(
    int vocabularySize,
    int hiddenSize,
    int intermediateSize,
    int layers,
    int heads,
    int keyValueHeads,
    int headSize,
    int maxPositions,
    float normEpsilon,
    RopeScaling rope,
    boolean tiedEmbeddings,
    boolean queryKeyValueBias,
    boolean attentionOutputBias,
    boolean mlpBias,
    List<Integer> endTokens) {

  static final String FILE = "config.json";
  static final long MAX_BYTES = 1 << 20;

  /** Far more than any model has: each takes memory for its tensors' names alone. */
  static final int MAX_LAYERS = 10_000;

  /**
   * Reads {@code config.json} and, where present, the end tokens of {@code generation_config.json}.
   *
   * @throws ModelException if this is no Llama that can be decoded
   */
  public static LlamaConfig read(Path directory) {
    if (!Files.isDirectory(directory)) {
      throw new ModelException("There is no model directory " + directory + ".");
    }
    JsonFile config = JsonFile.read(directory.resolve(FILE), MAX_BYTES);
    return of(config, endOfGeneration(directory, config));
  }

  /**
   * Checks and takes over what a file says.
   *
   * @param config as config.json
   * @param end the file with the end tokens
   */
  static LlamaConfig of(JsonFile config, JsonFile end) {
    ModelFamily family = ModelFamily.of(config);
    refuseWhatIsUnknown(config);
    int heads = config.positive("num_attention_heads");
    int hiddenSize = config.positive("hidden_size");
    int layers = config.positive("num_hidden_layers");
    if (layers > MAX_LAYERS) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s has %d layers, and this decoder takes at most %d.",
              config.name(),
              layers,
              MAX_LAYERS));
    }
    int maxPositions = config.positive("max_position_embeddings", family.maxPositions());
    LlamaConfig result =
        new LlamaConfig(
            config.positive("vocab_size"),
            hiddenSize,
            config.positive("intermediate_size"),
            layers,
            heads,
            config.mentions("num_key_value_heads")
                ? config.positive("num_key_value_heads", heads)
                : family.keyValueHeads(heads),
            config.positive("head_dim", Math.max(1, hiddenSize / heads)),
            maxPositions,
            (float) config.number("rms_norm_eps", 1e-6),
            RopeScaling.from(config, maxPositions),
            config.flag("tie_word_embeddings"),
            family.hasQueryKeyValueBias(config),
            family.hasAttentionOutputBias(config),
            family.hasMlpBias(config),
            endTokens(end));
    if (result.heads % result.keyValueHeads != 0) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s has %d attention heads, which its %d key/value heads do not divide.",
              config.name(),
              result.heads,
              result.keyValueHeads));
    }
    if (result.headSize % 2 != 0) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s has heads of %d numbers, and rotary embeddings need an even number.",
              config.name(),
              result.headSize));
    }
    if ((long) result.heads * result.headSize > JsonFile.MAX_INTEGER) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s has %d heads of %d numbers, more than %d together.",
              config.name(),
              result.heads,
              result.headSize,
              JsonFile.MAX_INTEGER));
    }
    int window = family.slidingWindow(config, layers).orElse(result.maxPositions);
    if (window < result.maxPositions) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s lets attention look back %d of %d positions, and this decoder knows no such window.",
              config.name(),
              window,
              result.maxPositions));
    }
    return result;
  }

  /** Query heads that share a key/value head. */
  public int headsPerKeyValueHead() {
    return heads / keyValueHeads;
  }

  /** The same with an output head of its own. */
  LlamaConfig untied() {
    return new LlamaConfig(
        vocabularySize,
        hiddenSize,
        intermediateSize,
        layers,
        heads,
        keyValueHeads,
        headSize,
        maxPositions,
        normEpsilon,
        rope,
        false,
        queryKeyValueBias,
        attentionOutputBias,
        mlpBias,
        endTokens);
  }

  private static void refuseWhatIsUnknown(JsonFile config) {
    String activation = config.string("hidden_act").orElse("silu");
    // swish is another name of the same function.
    if (!activation.equals("silu") && !activation.equals("swish")) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "%s has the activation %s, and this decoder knows silu only.",
              config.name(),
              JsonFile.quoted(activation)));
    }
    if (config.has("quantization_config")) {
      throw new ModelException(
          config.name() + " describes quantized weights, and this decoder reads plain ones only.");
    }
    if (config.has("transformers_weights")) {
      throw new ModelException(
          config.name()
              + " names its file of weights by transformers_weights, and this decoder reads "
              + Checkpoint.SINGLE
              + " or the files of "
              + Checkpoint.INDEX
              + ".");
    }
  }

  // transformers' generate() prefers generation_config.json, and chat models name their end of
  // turn only there.
  private static JsonFile endOfGeneration(Path directory, JsonFile config) {
    Path generation = directory.resolve("generation_config.json");
    if (!Files.isRegularFile(generation)) {
      return config;
    }
    JsonFile file = JsonFile.read(generation, MAX_BYTES);
    return file.has("eos_token_id") ? file : config;
  }

  private static List<Integer> endTokens(JsonFile file) {
    // Some models say -1 for none. What is no token of the vocabulary is never generated.
    return file.integers("eos_token_id", Long.MIN_VALUE).stream()
        .filter(token -> token >= 0 && token <= Integer.MAX_VALUE)
        .map(Long::intValue)
        .toList();
  }
}
