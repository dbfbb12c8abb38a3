package io.nvrar.examples.llama.generate;

import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Locale;

/** A request: the prompts to continue, and when to stop. The same on all ranks. */
public final class DecodeRequest implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int[][] prompts;
  private final int maxTokens;
  private final boolean ignoreEnd;
  private final boolean keepLogits;
  private final Sampling sampling;

  /**
   * With all settings.
   *
   * @param prompts the tokens of each sequence's prompt
   * @param maxTokens the largest number of tokens to generate for each
   * @param ignoreEnd whether a sequence continues after an end token
   * @param keepLogits whether rank 0 keeps the logits of the first sequence
   * @param sampling how tokens are chosen
   */
  public DecodeRequest(
      int[][] prompts, int maxTokens, boolean ignoreEnd, boolean keepLogits, Sampling sampling) {
    this.prompts = prompts;
    this.maxTokens = maxTokens;
    this.ignoreEnd = ignoreEnd;
    this.keepLogits = keepLogits;
    this.sampling = sampling;
  }

  /**
   * Checks that a model can take this.
   *
   * @throws ModelException if a prompt is empty or too long, or contains an invalid token
   */
  public void check(LlamaConfig config) {
    if (maxTokens < 1) {
      throw new ModelException(
          "The number of tokens to generate is " + maxTokens + ", and must be 1 or more.");
    }
    for (int i = 0; i < prompts.length; i++) {
      String prompt = "Prompt " + (i + 1);
      if (prompts[i].length == 0) {
        throw new ModelException(prompt + " has no tokens.");
      }
      if ((long) prompts[i].length + maxTokens > config.maxPositions()) {
        throw new ModelException(
            String.format(
                Locale.ROOT,
                "%s has %d tokens, and with %d more it would be longer than the model's %d positions.",
                prompt,
                prompts[i].length,
                maxTokens,
                config.maxPositions()));
      }
      for (int token : prompts[i]) {
        if (token < 0 || token >= config.vocabularySize()) {
          throw new ModelException(
              String.format(
                  Locale.ROOT,
                  "%s has the token %d, and the model's are 0 to %d.",
                  prompt,
                  token,
                  config.vocabularySize() - 1));
        }
      }
    }
  }

  /** The number of sequences. */
  public int sequences() {
    return prompts.length;
  }

  /** The tokens of a sequence's prompt; not copied. */
  public int[] prompt(int sequence) {
    return prompts[sequence];
  }

  /** How many tokens each sequence takes room for; the last that is generated is not fed back. */
  public int[] capacities() {
    int[] capacities = new int[prompts.length];
    Arrays.setAll(capacities, i -> prompts[i].length + maxTokens - 1);
    return capacities;
  }

  /** The largest number of tokens to generate for each sequence. */
  public int maxTokens() {
    return maxTokens;
  }

  /** Whether a sequence continues after an end token. */
  public boolean ignoreEnd() {
    return ignoreEnd;
  }

  /** Whether rank 0 keeps the logits of the first sequence. */
  public boolean keepLogits() {
    return keepLogits;
  }

  /** How tokens are chosen. */
  public Sampling sampling() {
    return sampling;
  }
}
