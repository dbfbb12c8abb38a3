package io.nvrar.examples.llama;

import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import java.util.Arrays;

/**
 * Computes the heap of an actor: without a limit each JVM would use up to a quarter of the
 * machine's memory.
 */
final class ActorHeap {
  private static final long MEBIBYTE = 1 << 20;
  // Ray's classes, its buffers, and activations, which are small against this.
  private static final long BASE_BYTES = 256 * MEBIBYTE;

  private ActorHeap() {}

  /**
   * For {@code -Xmx}, of the rank that needs most. On GPUs weights, keys and values are not in the
   * heap.
   */
  static String size(LlamaConfig config, ActorPlaces places, DecodeRequest request) {
    long rows = (long) request.sequences() * (request.keepLogits() ? 1 + request.maxTokens() : 1);
    // Logits, their order and their weights while sampling: 4 + 8 + 8 bytes.
    long logits = rows * config.vocabularySize() * 20L;
    long angles =
        (long) Arrays.stream(request.capacities()).max().orElse(0)
            * config.headSize()
            * Float.BYTES;
    long ofModel = 0;
    for (int rank = 0; rank < places.ranks() && !places.onGpus(); rank++) {
      ofModel =
          Math.max(ofModel, weightsAndCache(config, rank, places.ranks(), request.capacities()));
    }
    // A quarter more, for array headers and the garbage collector.
    long bytes = BASE_BYTES + (ofModel + angles + logits) / 4 * 5;
    return (bytes / MEBIBYTE + 1) + "m";
  }

  /**
   * The bytes of a rank's weights, and of the keys and values of the largest of some requests, in
   * float32.
   *
   * @param requests the capacities of the sequences of each
   */
  static long weightsAndCache(LlamaConfig config, int rank, int worldSize, int[]... requests) {
    Shard shard = Shard.of(config, rank, worldSize);
    long weights = RankTensors.of(config, shard).count() * Float.BYTES;
    long tokens = 0;
    for (int[] capacities : requests) {
      tokens = Math.max(tokens, Arrays.stream(capacities).asLongStream().sum());
    }
    long ofToken = 2L * config.layers() * shard.keyValueHeads().count() * config.headSize();
    return weights + tokens * ofToken * Float.BYTES;
  }
}
