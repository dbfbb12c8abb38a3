package io.nvrar.examples.llama.engine.cpu;

import io.nvrar.examples.llama.engine.RotaryEmbedding;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.Shard;
import java.util.Arrays;

/** Causal attention of this rank's query heads over the key/value heads that they share. */
final class Attention {
  private final int heads;
  private final int keyValueHeads;
  private final int headSize;
  private final int[] keyValueHeadOf;
  private final RotaryEmbedding rotary;
  private final float[] output;
  private float[] scores = {};

  Attention(LlamaConfig config, Shard shard) {
    heads = shard.heads().count();
    keyValueHeads = shard.keyValueHeads().count();
    headSize = config.headSize();
    keyValueHeadOf = new int[heads];
    for (int head = 0; head < heads; head++) {
      keyValueHeadOf[head] =
          (shard.heads().first() + head) / config.headsPerKeyValueHead()
              - shard.keyValueHeads().first();
    }
    rotary = new RotaryEmbedding(config);
    output = new float[headSize];
  }

  KvCache newCache(int[] capacities) {
    return new KvCache(keyValueHeads, headSize, capacities);
  }

  void reserve(int positions) {
    rotary.reserve(positions);
    if (scores.length < positions) {
      scores = new float[positions];
    }
  }

  /**
   * One token's attention.
   *
   * @param queryKeyValue this token's projections; its queries and keys are rotated in place
   * @param result this rank's heads of the output
   */
  void attend(KvCache cache, int sequence, int position, float[] queryKeyValue, float[] result) {
    int keysAt = heads * headSize;
    int valuesAt = keysAt + keyValueHeads * headSize;
    for (int head = 0; head < keyValueHeads; head++) {
      int offset = head * headSize;
      rotary.rotate(queryKeyValue, keysAt + offset, position);
      cache.put(sequence, head, position, queryKeyValue, keysAt + offset, valuesAt + offset);
    }
    int count = position + 1;
    float scale = (float) (1 / Math.sqrt(headSize));
    for (int head = 0; head < heads; head++) {
      int offset = head * headSize;
      rotary.rotate(queryKeyValue, offset, position);
      int shared = keyValueHeadOf[head];
      Arrays.fill(scores, 0, count, 0f);
      Kernels.accumulate(
          cache.keys(sequence, shared), 0, queryKeyValue, offset, headSize, scores, 0, count);
      Kernels.softmax(scores, count, scale);
      Arrays.fill(output, 0f);
      Kernels.accumulate(cache.values(sequence, shared), 0, scores, 0, count, output, 0, headSize);
      System.arraycopy(output, 0, result, offset, headSize);
    }
  }
}
