package io.nvrar.examples.llama.engine;

import java.util.List;

/** Where the sequences of a request stand, and how they go on; the same on all ranks. */
public final class Continuation {
  private final int[] lastTokens;
  private final int[] remaining;
  private final List<Integer> endTokens;
  private final float temperature;
  private final int topK;
  private final float topP;
  private final long seed;

  /**
   * With all of it.
   *
   * @param lastTokens of each sequence; not yet given to the engine
   * @param remaining how many tokens each sequence still wants; 0 for one that has ended
   * @param endTokens the tokens behind which a sequence ends; of the model's, or none
   * @param temperature the divisor of the logits before one of all tokens is drawn; 0 for the
   *     greatest
   * @param topK among how many of the likeliest tokens is drawn; 0 for all
   * @param topP the least total probability of the tokens among which is drawn; 1 for all
   * @param seed the seed of the draws
   */
  public Continuation(
      int[] lastTokens,
      int[] remaining,
      List<Integer> endTokens,
      float temperature,
      int topK,
      float topP,
      long seed) {
    this.lastTokens = lastTokens.clone();
    this.remaining = remaining.clone();
    this.endTokens = List.copyOf(endTokens);
    this.temperature = temperature;
    this.topK = topK;
    this.topP = topP;
    this.seed = seed;
  }

  /** The greatest logits. */
  public static Continuation greedy(int[] lastTokens, int[] remaining, List<Integer> endTokens) {
    return new Continuation(lastTokens, remaining, endTokens, 0, 0, 1, 0);
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

  /** Whether tokens are drawn among the likeliest only. */
  public boolean isOfLikeliest() {
    return temperature > 0 && (topK > 0 || topP < 1);
  }

  /** Among how many of the likeliest tokens is drawn; 0 for all. */
  public int topK() {
    return topK;
  }

  /** The least total probability of the tokens among which is drawn; 1 for all. */
  public float topP() {
    return topP;
  }

  /** The seed of the draws. */
  public long seed() {
    return seed;
  }
}
