package io.nvrar.examples.llama.engine.cpu;

import io.nvrar.CollectiveGroup;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.weights.LinearWeights;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.Range;
import io.nvrar.examples.llama.weights.Shard;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * A Llama in float32 on one core.
 *
 * <p>Every rank holds the whole residual stream. A layer's attention and MLP each read it through a
 * column-parallel projection, work on the rank's own heads or width, and end in a row-parallel
 * projection whose partial sums are all-reduced: two all-reduces a layer. The embedding is split by
 * vocabulary, one rank has a token's row and the others add zeros; the output head is split
 * likewise and its logits are gathered.
 */
public final class CpuEngine implements LlamaEngine {
  // Rows of a prefill step: enough to use each weight many times once it is in the cache, few
  // enough that activations of a large model stay small.
  private static final int PREFILL_ROWS = 128;

  private final LlamaWeights weights;
  private final LlamaConfig config;
  private final Shard shard;
  private final TensorParallel parallel;
  private final Attention attention;
  private final List<KvCache> caches = new ArrayList<>();
  private final int[] vocabularyCounts;
  private int[] lengths = {};
  private int[] capacities = {};
  private int[] positions = {};
  private float[][] hidden = {};
  private float[][] normalised = {};
  private float[][] partial = {};
  private float[][] queryKeyValue = {};
  private float[][] heads = {};
  private float[][] gateUp = {};
  private float[][] wide = {};
  private float[][] headRows = {};
  private float[][] logitsPart = {};

  /**
   * Creates an engine from a rank's weights and its member of the group, which the caller closes.
   */
  public CpuEngine(LlamaWeights weights, CollectiveGroup group) {
    this.weights = weights;
    config = weights.config();
    shard = weights.shard();
    if (shard.rank() != group.rank() || shard.worldSize() != group.worldSize()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "shard %d of %d in a group where this is rank %d of %d",
              shard.rank(),
              shard.worldSize(),
              group.rank(),
              group.worldSize()));
    }
    parallel =
        new TensorParallel(
            group, config.hiddenSize(), Shard.largestVocabulary(config, shard.worldSize()));
    attention = new Attention(config, shard);
    vocabularyCounts = new int[shard.worldSize()];
    for (int rank = 0; rank < shard.worldSize(); rank++) {
      vocabularyCounts[rank] = Shard.vocabularyOf(config, rank, shard.worldSize()).count();
    }
  }

  @Override
  public LlamaConfig config() {
    return config;
  }

  @Override
  public int maxRows() {
    return positions.length;
  }

  @Override
  public void begin(int[] sequenceCapacities) {
    capacities = sequenceCapacities.clone();
    lengths = new int[capacities.length];
    long tokens = Arrays.stream(capacities).asLongStream().sum();
    int rows = (int) Math.max(capacities.length, Math.min(PREFILL_ROWS, tokens));
    positions = new int[rows];
    hidden = new float[rows][config.hiddenSize()];
    normalised = new float[rows][config.hiddenSize()];
    partial = new float[rows][config.hiddenSize()];
    LlamaWeights.Layer layer = weights.layers().get(0);
    queryKeyValue = new float[rows][layer.queryKeyValue().outputs()];
    heads = new float[rows][layer.attentionOutput().inputs()];
    gateUp = new float[rows][layer.gateUp().outputs()];
    wide = new float[rows][layer.down().inputs()];
    headRows = new float[capacities.length][config.hiddenSize()];
    logitsPart = new float[capacities.length][shard.vocabulary().count()];
    caches.clear();
    for (int i = 0; i < config.layers(); i++) {
      caches.add(attention.newCache(capacities));
    }
    attention.reserve(Arrays.stream(capacities).max().orElse(0));
    parallel.reserve(rows, capacities.length);
  }

  @Override
  public void forward(TokenBatch batch, float[][] logits) {
    int rows = batch.rows();
    place(batch);
    embed(batch);
    for (int i = 0; i < config.layers(); i++) {
      LlamaWeights.Layer layer = weights.layers().get(i);
      attend(layer, caches.get(i), batch);
      addReduced(layer.attentionOutput(), heads, rows);
      feedForward(layer, rows);
      addReduced(layer.down(), wide, rows);
    }
    if (batch.logitsRows() > 0) {
      project(batch, logits);
    }
  }

  @Override
  public long collectiveNanos() {
    return parallel.nanos();
  }

  @Override
  public void close() {
    parallel.close();
  }

  private void place(TokenBatch batch) {
    for (int row = 0; row < batch.rows(); row++) {
      int sequence = batch.sequence(row);
      if (lengths[sequence] == capacities[sequence]) {
        throw new IllegalStateException(
            "sequence " + sequence + " has its " + capacities[sequence] + " tokens already");
      }
      positions[row] = lengths[sequence]++;
    }
  }

  private void embed(TokenBatch batch) {
    Range vocabulary = shard.vocabulary();
    float[][] embedding = weights.embedding();
    for (int row = 0; row < batch.rows(); row++) {
      int token = batch.token(row);
      float[] target = hidden[row];
      if (vocabulary.contains(token)) {
        int column = token - vocabulary.first();
        for (int i = 0; i < target.length; i++) {
          target[i] = embedding[i][column];
        }
      } else {
        Arrays.fill(target, 0f);
      }
    }
    parallel.allReduce(hidden, batch.rows());
  }

  private void attend(LlamaWeights.Layer layer, KvCache cache, TokenBatch batch) {
    int rows = batch.rows();
    normalise(layer.attentionNorm(), rows);
    Kernels.columnParallel(layer.queryKeyValue(), normalised, rows, queryKeyValue);
    for (int row = 0; row < rows; row++) {
      attention.attend(cache, batch.sequence(row), positions[row], queryKeyValue[row], heads[row]);
    }
  }

  private void feedForward(LlamaWeights.Layer layer, int rows) {
    normalise(layer.mlpNorm(), rows);
    Kernels.columnParallel(layer.gateUp(), normalised, rows, gateUp);
    for (int row = 0; row < rows; row++) {
      Kernels.swiGlu(gateUp[row], layer.down().inputs(), wide[row]);
    }
  }

  private void addReduced(LinearWeights linear, float[][] input, int rows) {
    Kernels.rowParallel(linear, input, rows, partial);
    parallel.allReduce(partial, rows);
    float[] bias = linear.bias();
    for (int row = 0; row < rows; row++) {
      Kernels.add(hidden[row], partial[row]);
      if (bias != null) {
        Kernels.add(hidden[row], bias);
      }
    }
  }

  private void normalise(LlamaWeights.Scale scale, int rows) {
    for (int row = 0; row < rows; row++) {
      Kernels.rmsNorm(hidden[row], scale.numbers(), config.normEpsilon(), normalised[row]);
    }
  }

  private void project(TokenBatch batch, float[][] logits) {
    int count = 0;
    for (int row = 0; row < batch.rows(); row++) {
      if (batch.wantsLogits(row)) {
        Kernels.rmsNorm(hidden[row], weights.finalNorm(), config.normEpsilon(), headRows[count]);
        Arrays.fill(logitsPart[count], 0f);
        count++;
      }
    }
    int size = shard.vocabulary().count();
    Kernels.multiply(weights.head(), headRows, count, logitsPart, size);
    parallel.allGather(logitsPart, size, count);
    for (int row = 0; row < count; row++) {
      int at = 0;
      for (int rank = 0; rank < shard.worldSize(); rank++) {
        parallel.gathered(count, rank, row, logits[row], at, vocabularyCounts[rank]);
        at += vocabularyCounts[rank];
      }
    }
  }
}
