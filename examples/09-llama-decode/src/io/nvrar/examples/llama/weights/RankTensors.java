package io.nvrar.examples.llama.weights;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The tensors of a rank's shard: which parts of the checkpoint they are made of, and in which order
 * they are loaded. Projections that read the same input stand side by side as one.
 */
public final class RankTensors {
  private final List<Layer> layers;
  private final RankTensor embedding;
  private final RankTensor head;
  private final RankTensor finalNorm;
  private final List<RankTensor> inLoadingOrder;

  /**
   * One layer. A bias of a row-parallel projection is the whole one on every rank, and belongs to
   * the sum over the ranks only once.
   *
   * @param attentionNorm what the normalised input of attention is scaled by
   * @param queryKeyValue column-parallel: rows are this rank's query heads, then its key heads,
   *     then its value heads
   * @param queryKeyValueBias a number for each of those rows, or none
   * @param attentionOutput row-parallel: columns are this rank's query heads
   * @param attentionOutputBias a number for each row, or none
   * @param mlpNorm what the normalised input of the MLP is scaled by
   * @param gateUp column-parallel: rows are this rank's part of gate, then of up
   * @param gateUpBias a number for each of those rows, or none
   * @param down row-parallel: columns are this rank's part of the MLP's width
   * @param downBias a number for each row, or none
   */
  public record Layer(
      RankTensor attentionNorm,
      RankTensor queryKeyValue,
      @Nullable RankTensor queryKeyValueBias,
      RankTensor attentionOutput,
      @Nullable RankTensor attentionOutputBias,
      RankTensor mlpNorm,
      RankTensor gateUp,
      @Nullable RankTensor gateUpBias,
      RankTensor down,
      @Nullable RankTensor downBias) {

    private Stream<RankTensor> tensors() {
      Stream<@Nullable RankTensor> all =
          Stream.of(
              attentionNorm,
              queryKeyValue,
              queryKeyValueBias,
              attentionOutput,
              attentionOutputBias,
              mlpNorm,
              gateUp,
              gateUpBias,
              down,
              downBias);
      return all.filter(Objects::nonNull).map(Objects::requireNonNull);
    }
  }

  private RankTensors(
      List<Layer> layers, RankTensor embedding, RankTensor head, RankTensor finalNorm) {
    this.layers = layers;
    this.embedding = embedding;
    this.head = head;
    this.finalNorm = finalNorm;
    List<RankTensor> all = new ArrayList<>(layers.stream().flatMap(Layer::tensors).toList());
    all.add(embedding);
    if (head != embedding) {
      all.add(head);
    }
    all.add(finalNorm);
    inLoadingOrder = List.copyOf(all);
  }

  /** Names the tensors of a rank. */
  public static RankTensors of(LlamaConfig config, Shard shard) {
    List<Layer> layers = new ArrayList<>();
    for (int layer = 0; layer < config.layers(); layer++) {
      layers.add(new LayerPlan(config, shard, layer).tensors());
    }
    RankTensor embedding = vocabularyPart(LlamaTensors.EMBEDDING, config, shard);
    return new RankTensors(
        List.copyOf(layers),
        embedding,
        config.tiedEmbeddings() ? embedding : vocabularyPart(LlamaTensors.HEAD, config, shard),
        norm(LlamaTensors.FINAL_NORM, config));
  }

  /** All tensors, each once, in the order in which they are loaded. */
  public List<RankTensor> inLoadingOrder() {
    return inLoadingOrder;
  }

  /** The layers in order. */
  public List<Layer> layers() {
    return layers;
  }

  /** {@code [this rank's vocabulary][hidden]}. */
  public RankTensor embedding() {
    return embedding;
  }

  /** {@code [this rank's vocabulary][hidden]}; the embedding itself where they are tied. */
  public RankTensor head() {
    return head;
  }

  /** What the final RMSNorm multiplies by. */
  public RankTensor finalNorm() {
    return finalNorm;
  }

  /**
   * The format in which an engine keeps the matrices: that of the source, or float32 if it stores
   * them in several, which few models do.
   */
  public FloatFormat matrixFormat(TensorSource source) {
    Set<FloatFormat> formats = EnumSet.noneOf(FloatFormat.class);
    for (RankTensor tensor : inLoadingOrder) {
      if (tensor.kind() == RankTensor.Kind.MATRIX) {
        tensor.parts().forEach(part -> formats.add(source.format(part.name())));
      }
    }
    return formats.size() == 1 ? formats.iterator().next() : FloatFormat.F32;
  }

  /** How many numbers all tensors have. */
  public long count() {
    return inLoadingOrder.stream().mapToLong(RankTensor::count).sum();
  }

  /** The bytes that all tensors take in the formats that each kind is kept in. */
  public long bytes(FloatFormat matrices, FloatFormat norms, FloatFormat biases) {
    long bytes = 0;
    for (RankTensor tensor : inLoadingOrder) {
      bytes +=
          switch (tensor.kind()) {
            case MATRIX -> tensor.bytes(matrices);
            case NORM -> tensor.bytes(norms);
            case BIAS -> tensor.bytes(biases);
          };
    }
    return bytes;
  }

  /** The bytes that a source reads for all tensors. */
  public long sourceBytes(TensorSource source) {
    return inLoadingOrder.stream().mapToLong(tensor -> tensor.sourceBytes(source)).sum();
  }

  private static RankTensor vocabularyPart(String name, LlamaConfig config, Shard shard) {
    return RankTensor.matrix(name, TensorPart.rows(name, shard.vocabulary(), config.hiddenSize()));
  }

  private static RankTensor norm(String name, LlamaConfig config) {
    int hidden = config.hiddenSize();
    return RankTensor.vector(
        name, RankTensor.Kind.NORM, TensorPart.vector(name, Range.of(hidden), hidden));
  }

  private record LayerPlan(LlamaConfig config, Shard shard, int layer) {

    /** Some outputs of a column-parallel projection, of {@code total}. */
    private record Outputs(String projection, Range range, int total) {}

    Layer tensors() {
      Range queries = shard.heads().times(config.headSize());
      Range keys = shard.keyValueHeads().times(config.headSize());
      int allQueries = config.heads() * config.headSize();
      int allKeys = config.keyValueHeads() * config.headSize();
      Outputs[] queryKeyValue = {
        new Outputs(LlamaTensors.QUERY, queries, allQueries),
        new Outputs(LlamaTensors.KEY, keys, allKeys),
        new Outputs(LlamaTensors.VALUE, keys, allKeys)
      };
      Range wide = shard.intermediate();
      int allWide = config.intermediateSize();
      Outputs[] gateUp = {
        new Outputs(LlamaTensors.GATE, wide, allWide), new Outputs(LlamaTensors.UP, wide, allWide)
      };
      return new Layer(
          norm(named(LlamaTensors.ATTENTION_NORM), config),
          columnParallel("self_attn.qkv_proj", queryKeyValue),
          config.queryKeyValueBias() ? splitBias("self_attn.qkv_proj", queryKeyValue) : null,
          rowParallel(LlamaTensors.ATTENTION_OUTPUT, queries, allQueries),
          config.attentionOutputBias() ? wholeBias(LlamaTensors.ATTENTION_OUTPUT) : null,
          norm(named(LlamaTensors.MLP_NORM), config),
          columnParallel("mlp.gate_up_proj", gateUp),
          config.mlpBias() ? splitBias("mlp.gate_up_proj", gateUp) : null,
          rowParallel(LlamaTensors.DOWN, wide, allWide),
          config.mlpBias() ? wholeBias(LlamaTensors.DOWN) : null);
    }

    private RankTensor columnParallel(String name, Outputs... outputs) {
      TensorPart[] parts = new TensorPart[outputs.length];
      for (int i = 0; i < parts.length; i++) {
        String weight = LlamaTensors.weight(named(outputs[i].projection()));
        parts[i] = TensorPart.rows(weight, outputs[i].range(), config.hiddenSize());
      }
      return RankTensor.matrix(LlamaTensors.weight(named(name)), parts);
    }

    private RankTensor rowParallel(String projection, Range inputs, int totalInputs) {
      String weight = LlamaTensors.weight(named(projection));
      return RankTensor.matrix(
          weight, TensorPart.columns(weight, config.hiddenSize(), inputs, totalInputs));
    }

    private RankTensor splitBias(String name, Outputs... outputs) {
      TensorPart[] parts = new TensorPart[outputs.length];
      for (int i = 0; i < parts.length; i++) {
        String bias = LlamaTensors.bias(named(outputs[i].projection()));
        parts[i] = TensorPart.vector(bias, outputs[i].range(), outputs[i].total());
      }
      return RankTensor.vector(LlamaTensors.bias(named(name)), RankTensor.Kind.BIAS, parts);
    }

    private RankTensor wholeBias(String projection) {
      String bias = LlamaTensors.bias(named(projection));
      int hidden = config.hiddenSize();
      return RankTensor.vector(
          bias, RankTensor.Kind.BIAS, TensorPart.vector(bias, Range.of(hidden), hidden));
    }

    private String named(String name) {
      return LlamaTensors.inLayer(layer, name);
    }
  }
}
