package io.nvrar.examples.llama.weights;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The {@link RankTensors} of a rank in float32 and transposed: what a file holds as {@code
 * [outputs][inputs]} becomes {@code [inputs][outputs]}, in which the CPU engine's loops run over
 * adjacent numbers without adding them up across lanes.
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

  private LlamaWeights(LlamaConfig config, Shard shard, FloatReader reader) {
    this.config = config;
    this.shard = shard;
    RankTensors tensors = RankTensors.of(config, shard);
    layers = tensors.layers().stream().map(layer -> layer(reader, layer)).toList();
    embedding = matrix(reader, tensors.embedding());
    head = tensors.head() == tensors.embedding() ? embedding : matrix(reader, tensors.head());
    finalNorm = reader.vector(tensors.finalNorm());
  }

  /**
   * Reads a rank's weights, and no other bytes of the tensors.
   *
   * @param source where they come from
   * @param config what its config.json says
   * @param shard the rank's part
   * @throws ModelException if a tensor is missing, malformed or of another shape
   */
  public static LlamaWeights read(TensorSource source, LlamaConfig config, Shard shard) {
    LlamaTensors.check(source, config);
    return new LlamaWeights(config, shard, new FloatReader(source));
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

  private static Layer layer(FloatReader reader, RankTensors.Layer layer) {
    return new Layer(
        new Scale(reader.vector(layer.attentionNorm())),
        linear(reader, layer.queryKeyValue(), layer.queryKeyValueBias()),
        linear(reader, layer.attentionOutput(), layer.attentionOutputBias()),
        new Scale(reader.vector(layer.mlpNorm())),
        linear(reader, layer.gateUp(), layer.gateUpBias()),
        linear(reader, layer.down(), layer.downBias()));
  }

  private static LinearWeights linear(
      FloatReader reader, RankTensor weight, @Nullable RankTensor bias) {
    return new LinearWeights(
        matrix(reader, weight), bias == null ? null : reader.vector(bias), weight.rows());
  }

  private static float[][] matrix(FloatReader reader, RankTensor tensor) {
    float[][] transposed = new float[tensor.columns()][tensor.rows()];
    reader.transposed(tensor, transposed);
    return transposed;
  }
}
