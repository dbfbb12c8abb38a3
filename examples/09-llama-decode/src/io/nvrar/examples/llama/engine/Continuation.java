package io.nvrar.examples.llama.engine;

import java.util.List;

/** Where the sequences of a request stand, and how they go on; the same on all ranks. */
public final class Continuation {
  private final int[] lastTokens;
  private final int[] remaining;
  private final List<Integer> endTokens;
  private final float temperature;
  private final long seed;

  /**
   * With all of it.
   *
   * @param lastTokens of each sequence; not yet given to the engine
   * @param remaining how many tokens each sequence still wants; 0 for one that has ended
   * @param endTokens the tokens behind which a sequence ends; of the model's, or none
   * @param temperature the divisor of the logits before one of all tokens is drawn; 0 for the
   *     greatest
   * @param seed the seed of the draws
   */
  public Continuation(
      int[] lastTokens, int[] remaining, List<Integer> endTokens, float temperature, long seed) {
    this.lastTokens = lastTokens.clone();
    this.remaining = remaining.clone();
    this.endTokens = List.copyOf(endTokens);
    this.temperature = temperature;
    this.seed = seed;
  }

  /** The number of sequences. */
  public int sequences() {
    return lastTokens.length;
  }

  /** A sequence's last token. */
  public int lastToken(int sequence) {
    return lastTokens[sequence];
  }

  /** How many tokens a sequence still wants. */
  public int remaining(int sequence) {
    return remaining[sequence];
  }

  /** The tokens behind which a sequence ends. */
  public List<Integer> endTokens() {
    return endTokens;
  }

  /** The temperature; 0 for the greatest logit. */
  public float temperature() {
    return temperature;
  }

  /** The seed of the draws. */
  public long seed() {
    return seed;
  }
}
