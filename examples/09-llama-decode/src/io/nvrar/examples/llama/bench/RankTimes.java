package io.nvrar.examples.llama.bench;

import java.io.Serializable;

/** What a rank has measured in a {@link BenchCell}. A class and not a record, as that is. */
public final class RankTimes implements Serializable {
  private static final long serialVersionUID = 1L;

  private final double[] stepMillis;
  private final double[] withoutMillis;
  private final int[] tokens;
  private final boolean fast;
  private final String problem;

  RankTimes(
      double[] stepMillis, double[] withoutMillis, int[] tokens, boolean fast, String problem) {
    this.stepMillis = stepMillis;
    this.withoutMillis = withoutMillis;
    this.tokens = tokens;
    this.fast = fast;
    this.problem = problem;
  }

  RankTimes withWithout(double[] millis) {
    return new RankTimes(stepMillis, millis, tokens, fast, problem);
  }

  /** Milliseconds of a step in each block that counts; not copied. */
  public double[] stepMillis() {
    return stepMillis;
  }

  /** The same of steps without all-reduces; empty in a world of one. Not copied. */
  public double[] withoutMillis() {
    return withoutMillis;
  }

  /** The tokens of a block, step by step and in a step by sequence; not copied. */
  public int[] tokens() {
    return tokens;
  }

  /** Whether the fast kernels were used. */
  public boolean fast() {
    return fast;
  }

  /** What is wrong with the tokens; empty if nothing is. */
  public String problem() {
    return problem;
  }
}
