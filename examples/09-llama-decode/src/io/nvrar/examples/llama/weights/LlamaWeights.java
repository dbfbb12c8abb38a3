package io.nvrar.examples.llama.weights;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;

/**
 * The weights of a rank's shard in float32. Projections that read the same input stand side by side
 * as one.
 */
public final class LlamaWeights {
  private final LlamaConfig config;
  private final Shard shard;
  private final float[][] embedding;
  private final float[][] head;
  private final float[] finalNorm;
  private final List<Layer> layers;

  /**
   * One layer.
   *
   * @param attentionNorm what the normalised input of attention is scaled by
   * @param queryKeyValue column-parallel: outputs are this rank's query heads, then its key heads,
   *     then its value heads
   * @param attentionOutput row-parallel: inputs are this rank's query heads
   * @param mlpNorm what the normalised input of the MLP is scaled by
   * @param gateUp column-parallel: outputs are this rank's part of gate, then of up
   * @param down row-parallel: inputs are this rank's part of the MLP's width
   */
  public record Layer(
      Scale attentionNorm,
      LinearWeights queryKeyValue,
      LinearWeights attentionOutput,
      Scale mlpNorm,
      LinearWeights gateUp,
      LinearWeights down) {}

  /** What RMSNorm multiplies by. */
  public static final class Scale {
    private final float[] numbers;

    Scale(float[] numbers) {
      this.numbers = numbers;
    }

    /** One number a hidden one; not copied, not to be written. */
    public float[] numbers() {
      return numbers;
    }
  }

  private LlamaWeights(LlamaConfig config, Shard shard, Checkpoint checkpoint) {
    this.config = config;
    this.shard = shard;
    embedding = vocabularyPart(checkpoint, LlamaTensors.EMBEDDING);
    head = config.tiedEmbeddings() ? embedding : vocabularyPart(checkpoint, LlamaTensors.HEAD);
    finalNorm = norm(checkpoint, LlamaTensors.FINAL_NORM).numbers();
    List<Layer> read = new ArrayList<>();
    for (int layer = 0; layer < config.layers(); layer++) {
      read.add(layer(checkpoint, layer));
    }
    layers = List.copyOf(read);
  }

  /**
   * Reads a rank's weights, and no other bytes of the tensors.
   *
   * @param directory the model directory
   * @param config what its config.json says
   * @param shard the rank's part
   * @param progress hears how many bytes were read since it heard last
   * @throws ModelException if a tensor is missing, malformed or of another shape
   */
  public static LlamaWeights read(
      Path directory, LlamaConfig config, Shard shard, LongConsumer progress) {
    try (Checkpoint checkpoint = Checkpoint.open(directory, progress)) {
      LlamaTensors.check(checkpoint, config);
      return new LlamaWeights(config, shard, checkpoint);
    }
  }

  /**
   * The bytes that {@link #read} takes from the files; their formats are those of the embedding.
   */
  public static long fileBytes(Checkpoint checkpoint, LlamaConfig config, Shard shard) {
    return count(config, shard) * checkpoint.elementBytes(LlamaTensors.EMBEDDING);
  }

  /** How many numbers a rank's weights have. */
  public static long count(LlamaConfig config, Shard shard) {
    long hidden = config.hiddenSize();
    long vocabulary = (config.tiedEmbeddings() ? 1L : 2L) * shard.vocabulary().count() * hidden;
    long attention =
        (2L * shard.heads().count() + 2L * shard.keyValueHeads().count()) * config.headSize();
    long mlp = 3L * shard.intermediate().count();
    return vocabulary
        + hidden
        + config.layers() * (hidden * (attention + mlp + 2) + biases(config, shard));
  }

  private static long biases(LlamaConfig config, Shard shard) {
    long heads = shard.heads().count() + 2L * shard.keyValueHeads().count();
    long attention = heads * config.headSize() + config.hiddenSize();
    long mlp = 2L * shard.intermediate().count() + config.hiddenSize();
    return (config.attentionBias() ? attention : 0) + (config.mlpBias() ? mlp : 0);
  }

  /** What the model's config.json says. */
  public LlamaConfig config() {
    return config;
  }

  /** Which part this is. */
  public Shard shard() {
    return shard;
  }

  /** {@code [hidden][this rank's vocabulary]}: a token's embedding is a column. */
  public float[][] embedding() {
    return embedding;
  }

  /** {@code [hidden][this rank's vocabulary]}; the embedding itself where they are tied. */
  public float[][] head() {
    return head;
  }

  /** What the final RMSNorm multiplies by. */
  public float[] finalNorm() {
    return finalNorm;
  }

  /** The layers in order. */
  public List<Layer> layers() {
    return layers;
  }

  private float[][] vocabularyPart(Checkpoint checkpoint, String name) {
    float[][] part = new float[config.hiddenSize()][shard.vocabulary().count()];
    checkpoint.readRows(name, shard.vocabulary(), part, 0);
    return part;
  }

  private Scale norm(Checkpoint checkpoint, String name) {
    float[] numbers = new float[config.hiddenSize()];
    checkpoint.readVector(name, Range.of(config.hiddenSize()), numbers, 0);
    return new Scale(numbers);
  }

  private Layer layer(Checkpoint checkpoint, int layer) {
    Range queries = shard.heads().times(config.headSize());
    Range keys = shard.keyValueHeads().times(config.headSize());
    String attention = LlamaTensors.inLayer(layer, "self_attn.");
    String mlp = LlamaTensors.inLayer(layer, "mlp.");
    boolean attentionBias = config.attentionBias();
    return new Layer(
        norm(checkpoint, LlamaTensors.inLayer(layer, "input_layernorm.weight")),
        columnParallel(
            checkpoint,
            attentionBias,
            new Part(attention + "q_proj", queries),
            new Part(attention + "k_proj", keys),
            new Part(attention + "v_proj", keys)),
        rowParallel(
            checkpoint,
            attentionBias,
            new Part(attention + "o_proj", queries),
            config.heads() * config.headSize()),
        norm(checkpoint, LlamaTensors.inLayer(layer, "post_attention_layernorm.weight")),
        columnParallel(
            checkpoint,
            config.mlpBias(),
            new Part(mlp + "gate_proj", shard.intermediate()),
            new Part(mlp + "up_proj", shard.intermediate())),
        rowParallel(
            checkpoint,
            config.mlpBias(),
            new Part(mlp + "down_proj", shard.intermediate()),
            config.intermediateSize()));
  }

  private record Part(String name, Range range) {}

  private LinearWeights columnParallel(Checkpoint checkpoint, boolean bias, Part... parts) {
    int outputs = 0;
    for (Part part : parts) {
      outputs += part.range().count();
    }
    LinearWeights linear = new LinearWeights(config.hiddenSize(), outputs, bias);
    int at = 0;
    for (Part part : parts) {
      checkpoint.readRows(part.name() + ".weight", part.range(), linear.weight(), at);
      float[] biases = linear.bias();
      if (biases != null) {
        checkpoint.readVector(part.name() + ".bias", part.range(), biases, at);
      }
      at += part.range().count();
    }
    return linear;
  }

  private LinearWeights rowParallel(
      Checkpoint checkpoint, boolean bias, Part part, int totalInputs) {
    LinearWeights linear = new LinearWeights(part.range().count(), config.hiddenSize(), bias);
    checkpoint.readColumns(part.name() + ".weight", part.range(), totalInputs, linear.weight());
    float[] biases = linear.bias();
    if (biases != null) {
      checkpoint.readVector(part.name() + ".bias", Range.of(biases.length), biases, 0);
    }
    return linear;
  }
}
