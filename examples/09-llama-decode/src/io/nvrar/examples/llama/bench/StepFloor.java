package io.nvrar.examples.llama.bench;

import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;

/**
 * What a step cannot be faster than: the time in which a GPU reads the weights of its rank, and the
 * keys and values that the step attends to, each once.
 *
 * @param weightBytes weights that a step reads, of the rank that reads the most
 * @param cacheBytes keys and values that a step reads, of that rank
 * @param bandwidth bytes that a GPU reads in a second
 */
public record StepFloor(long weightBytes, long cacheBytes, double bandwidth) {
  private static final double MILLIS = 1e3;

  /**
   * The floor of a cell.
   *
   * @param matrices the format of the weights
   * @param fast whether the fast kernels are used, for which keys, values and norms are in that
   *     format too; else they are in float32
   */
  public static StepFloor of(
      LlamaConfig config,
      int ranks,
      BenchCell cell,
      FloatFormat matrices,
      boolean fast,
      double bandwidth) {
    FloatFormat other = fast ? matrices : FloatFormat.F32;
    long weights = 0;
    long cache = 0;
    for (int rank = 0; rank < ranks; rank++) {
      Shard shard = Shard.of(config, rank, ranks);
      RankTensors tensors = RankTensors.of(config, shard);
      long bytes = tensors.bytes(matrices, other, FloatFormat.F32);
      if (tensors.head() != tensors.embedding()) {
        // Of which a step reads a row for each sequence.
        bytes -= tensors.embedding().bytes(matrices);
      }
      double position =
          2.0
              * config.layers()
              * shard.keyValueHeads().count()
              * config.headSize()
              * other.sizeBytes();
      long read = Math.round(position * cell.batch() * cell.meanPositions());
      if (bytes + read > weights + cache) {
        weights = bytes;
        cache = read;
      }
    }
    return new StepFloor(weights, cache, bandwidth);
  }

  /** Milliseconds. */
  public double millis() {
    return (weightBytes + cacheBytes) / bandwidth * MILLIS;
  }
}
