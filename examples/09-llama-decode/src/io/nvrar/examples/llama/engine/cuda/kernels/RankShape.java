package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.Shard;

/**
 * The sizes of a rank's part of a model.
 *
 * @param layers layers
 * @param hidden numbers in the residual stream of a row
 * @param heads query heads
 * @param firstHead the first of them in the whole model
 * @param keyValueHeads key/value heads
 * @param firstKeyValueHead the first of them in the whole model
 * @param headsPerKeyValueHead query heads of the whole model that share a key/value head
 * @param headSize numbers in a head
 * @param width of the MLP
 * @param vocabulary words
 * @param firstToken the first of them
 */
public record RankShape(
    int layers,
    int hidden,
    int heads,
    int firstHead,
    int keyValueHeads,
    int firstKeyValueHead,
    int headsPerKeyValueHead,
    int headSize,
    int width,
    int vocabulary,
    int firstToken) {

  public static RankShape of(LlamaConfig config, Shard shard) {
    return new RankShape(
        config.layers(),
        config.hiddenSize(),
        shard.heads().count(),
        shard.heads().first(),
        shard.keyValueHeads().count(),
        shard.keyValueHeads().first(),
        config.headsPerKeyValueHead(),
        config.headSize(),
        shard.intermediate().count(),
        shard.vocabulary().count(),
        shard.vocabulary().first());
  }

  /** Numbers that the projection of queries, keys and values gives for a row. */
  public int queryKeyValueSize() {
    return (heads + 2 * keyValueHeads) * headSize;
  }

  /** Numbers that attention gives for a row. */
  public int attentionSize() {
    return heads * headSize;
  }

  /** Whether this many neighbouring query heads always share a key/value head. */
  boolean sharesKeyValueHeadsBy(int neighbours) {
    return heads % neighbours == 0
        && firstHead % neighbours == 0
        && headsPerKeyValueHead % neighbours == 0;
  }

  /** Whether all key/value heads are read by as many query heads of this rank. */
  public boolean isEvenlyShared() {
    if (heads % keyValueHeads != 0) {
      return false;
    }
    int group = heads / keyValueHeads;
    for (int head = 0; head < heads; head++) {
      if ((firstHead + head) / headsPerKeyValueHead - firstKeyValueHead != head / group) {
        return false;
      }
    }
    return true;
  }
}
