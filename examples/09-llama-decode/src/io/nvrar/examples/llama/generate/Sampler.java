package io.nvrar.examples.llama.generate;

import io.nvrar.examples.llama.weights.ModelException;
import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * Chooses the tokens of one sequence.
 *
 * <p>Every rank chooses independently, and all choose the same without communicating: the gathered
 * logits have the same bits on all ranks, the random numbers come from the same seed, and the
 * arithmetic between them is the same on every machine (StrictMath: the exponential function of
 * Math may differ in its last bit between processors). Nothing here may depend on the rank.
 */
public final class Sampler {
  private final Sampling sampling;
  private final SplittableRandom random;
  private long[] order = {};
  private double[] weights = {};

  /** For one of a request's sequences, whose choices do not depend on the others'. */
  public Sampler(Sampling sampling, int sequence) {
    this.sampling = sampling;
    SplittableRandom root = new SplittableRandom(sampling.seed());
    SplittableRandom own = root.split();
    for (int i = 0; i < sequence; i++) {
      own = root.split();
    }
    random = own;
  }

  /**
   * Chooses a token.
   *
   * @throws ModelException if the logits are not numbers
   */
  public int choose(float[] logits) {
    return sampling.temperature() == 0 ? greatest(logits) : sample(logits);
  }

  private static int greatest(float[] logits) {
    int best = 0;
    for (int token = 0; token < logits.length; token++) {
      // False for NaN, too, which is greater than nothing and would be passed over.
      if (!(logits[token] < Float.POSITIVE_INFINITY)) {
        throw notNumbers();
      }
      if (logits[token] > logits[best]) {
        best = token;
      }
    }
    if (logits[best] == Float.NEGATIVE_INFINITY) {
      throw notNumbers();
    }
    return best;
  }

  private int sample(float[] logits) {
    sort(logits);
    int kept = sampling.topK() == 0 ? logits.length : Math.min(sampling.topK(), logits.length);
    float greatest = logits[token(0)];
    if (!Float.isFinite(greatest)) {
      throw notNumbers();
    }
    double total = 0;
    for (int i = 0; i < kept; i++) {
      double distance = (double) logits[token(i)] - greatest;
      weights[i] = StrictMath.exp(distance / sampling.temperature());
      total += weights[i];
    }
    if (sampling.topP() < 1) {
      double enough = sampling.topP() * total;
      double sum = 0;
      int count = 0;
      // The token that crosses the limit is kept, so that there is always one.
      while (count < kept && sum < enough) {
        sum += weights[count++];
      }
      kept = count;
      total = sum;
    }
    double point = random.nextDouble() * total;
    for (int i = 0; i < kept - 1; i++) {
      point -= weights[i];
      if (point < 0) {
        return token(i);
      }
    }
    return token(kept - 1);
  }

  // Sorts tokens by falling logit, equal ones by number, as longs of both: no objects, no ties.
  private void sort(float[] logits) {
    if (order.length != logits.length) {
      order = new long[logits.length];
      weights = new double[logits.length];
    }
    for (int token = 0; token < logits.length; token++) {
      int bits = Float.floatToIntBits(logits[token]);
      int rising = bits ^ (bits >> 31 & 0x7fffffff);
      order[token] = (long) ~rising << 32 | token;
    }
    Arrays.sort(order);
  }

  private int token(int place) {
    return (int) order[place];
  }

  private static ModelException notNumbers() {
    return new ModelException("The logits are not finite numbers: are the weights damaged?");
  }
}
