package io.nvrar.examples.llama.generate;

import io.nvrar.examples.llama.weights.ModelException;
import java.io.Serializable;

/**
 * How a token is chosen from logits. A class and not a record: Ray's serializer cannot read records
 * back.
 */
public final class Sampling implements Serializable {
  private static final long serialVersionUID = 1L;

  private final double temperature;
  private final int topK;
  private final double topP;
  private final long seed;

  /**
   * With all settings.
   *
   * @param temperature the divisor of the logits; 0 chooses the greatest
   * @param topK how many of the likeliest tokens may be chosen; 0 for all
   * @param topP the least total probability of the tokens that may be chosen, above 0; 1 for all
   * @param seed the seed of the random numbers
   */
  public Sampling(double temperature, int topK, double topP, long seed) {
    if (!(temperature >= 0) || Double.isInfinite(temperature)) {
      throw new ModelException(
          "The temperature is " + temperature + ", and must be 0 or more, and finite.");
    }
    if (topK < 0) {
      throw new ModelException("Top-k is " + topK + ", and must be 0 (for all) or more.");
    }
    if (!(topP > 0 && topP <= 1)) {
      throw new ModelException("Top-p is " + topP + ", and must be above 0 and at most 1.");
    }
    this.temperature = temperature;
    this.topK = topK;
    this.topP = topP;
    this.seed = seed;
  }

  /** Always chooses the greatest logit. */
  public static Sampling greedy() {
    return new Sampling(0, 0, 1, 0);
  }

  double temperature() {
    return temperature;
  }

  int topK() {
    return topK;
  }

  double topP() {
    return topP;
  }

  long seed() {
    return seed;
  }
}
