package io.nvrar.examples.llama.weights;

import java.util.Locale;

/**
 * Which part of a Llama a rank holds.
 *
 * <p>Query heads are split evenly, so the world size must divide them. A rank holds the key/value
 * heads that its query heads read: several, or one that it shares with its neighbours. MLP width
 * and vocabulary are split as evenly as they go, and a rank may have none of them.
 *
 * @param rank this rank
 * @param worldSize the number of ranks
 * @param heads query heads, and columns of the output projection
 * @param keyValueHeads key/value heads
 * @param intermediate rows of the MLP's gate and up, columns of its down projection
 * @param vocabulary rows of the embedding and of the output head
 */
public record Shard(
    int rank,
    int worldSize,
    Range heads,
    Range keyValueHeads,
    Range intermediate,
    Range vocabulary) {

  /**
   * The part of a rank.
   *
   * @throws ModelException if the world size does not divide the attention heads
   */
  public static Shard of(LlamaConfig config, int rank, int worldSize) {
    if (rank < 0 || rank >= worldSize) {
      throw new IllegalArgumentException("rank " + rank + " is not one of " + worldSize);
    }
    requireDivisible(config, worldSize);
    Range heads = Range.part(config.heads(), rank, worldSize);
    int group = config.headsPerKeyValueHead();
    int firstKeyValueHead = heads.first() / group;
    int lastKeyValueHead = (heads.end() - 1) / group;
    return new Shard(
        rank,
        worldSize,
        heads,
        new Range(firstKeyValueHead, lastKeyValueHead - firstKeyValueHead + 1),
        Range.part(config.intermediateSize(), rank, worldSize),
        vocabularyOf(config, rank, worldSize));
  }

  /**
   * Checks that a model can be spread over so many ranks.
   *
   * @throws ModelException if they do not divide the attention heads
   */
  public static void requireDivisible(LlamaConfig config, int worldSize) {
    if (config.heads() % worldSize != 0) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "The model has %d attention heads, which %d ranks do not divide.",
              config.heads(),
              worldSize));
    }
  }

  /** The vocabulary of any rank of this shard's world. */
  public static Range vocabularyOf(LlamaConfig config, int rank, int worldSize) {
    return Range.part(config.vocabularySize(), rank, worldSize);
  }

  /** The most vocabulary that a rank has: rank 0's. */
  public static int largestVocabulary(LlamaConfig config, int worldSize) {
    return vocabularyOf(config, 0, worldSize).count();
  }
}
