package io.nvrar.examples.llama.weights;

import org.jspecify.annotations.Nullable;

/**
 * A rank's part of a linear layer, {@code y = x W + b}.
 *
 * <p>A column-parallel layer has all inputs and some outputs: its bias belongs to those outputs. A
 * row-parallel layer has some inputs and all outputs: what it computes is a partial sum, and its
 * bias, which every rank holds, is added once, after the sum over the ranks.
 */
public final class LinearWeights {
  private final float[][] weight;
  private final float @Nullable [] bias;
  private final int outputs;

  LinearWeights(float[][] weight, float @Nullable [] bias, int outputs) {
    this.weight = weight;
    this.bias = bias;
    this.outputs = outputs;
  }

  /** Numbers of this rank's part of an input row. */
  public int inputs() {
    return weight.length;
  }

  /** Numbers of this rank's part of an output row. */
  public int outputs() {
    return outputs;
  }

  /** {@code [inputs][outputs]}; not copied, not to be written. */
  public float[][] weight() {
    return weight;
  }

  /** One number an output, or none; not copied, not to be written. */
  public float @Nullable [] bias() {
    return bias;
  }
}
