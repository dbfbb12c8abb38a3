package io.nvrar.examples.llama.engine.cuda;

/** What {@link CudaEngine#time} has measured. */
public final class TimedSteps {
  private final double[] millis;
  private final int[] lastTokens;

  TimedSteps(double[] millis, int[] lastTokens) {
    this.millis = millis;
    this.lastTokens = lastTokens;
  }

  /** Milliseconds of a step, for each block of steps; not copied. */
  public double[] millis() {
    return millis;
  }

  /** The tokens that the last step has chosen, by sequence; not copied. */
  public int[] lastTokens() {
    return lastTokens;
  }
}
