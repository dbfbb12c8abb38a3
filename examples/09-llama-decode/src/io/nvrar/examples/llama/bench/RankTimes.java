package io.nvrar.examples.llama.bench;

import java.io.Serializable;

/** What a rank has measured in a {@link BenchCell}. A class and not a record, as that is. */
public final class RankTimes implements Serializable {
  private static final long serialVersionUID = 1L;

  private final double[] stepMillis;
  private final double[] aloneMillis;
  private final int[] tokens;
  private final boolean fast;
  private final String problem;

  RankTimes(double[] stepMillis, double[] aloneMillis, int[] tokens, boolean fast, String problem) {
    this.stepMillis = stepMillis;
    this.aloneMillis = aloneMillis;
    this.tokens = tokens;
    this.fast = fast;
    this.problem = problem;
  }

  RankTimes withAlone(double[] millis) {
    return new RankTimes(stepMillis, millis, tokens, fast, problem);
  }

  /** Milliseconds of a step in each block that counts; not copied. */
  public double[] stepMillis() {
    return stepMillis;
  }

  /** The same without the other ranks; empty in a world of one. Not copied. */
  public double[] aloneMillis() {
    return aloneMillis;
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
