package io.nvrar.tools.bench.setup;

import io.nvrar.AllReduceFusion;
import io.nvrar.AllReduceFusion.Form;
import io.nvrar.DataType;

/**
 * What a fused all-reduce adds to its sums, and what it has to write. All but the RMS norm is exact
 * in every type, as in {@link CollectiveValues}; the expectation is computed in double and shares
 * nothing with the library.
 *
 * @param sums the values of the all-reduce
 */
public record FusedValues(CollectiveValues sums, FusedRows fused) {
  /** What is added to the mean of the squares. */
  public static final float EPS = 1e-5f;

  private static final long RESIDUAL_SEED = 0x5265736964756121L;
  private static final long WEIGHT_SEED = 0x5765696768747321L;
  private static final int PART_BYTES = 128;
  private static final double WEIGHT_UNIT = 0.125;

  /** The residual, the same on all ranks. */
  public float[] residual(long seed) {
    return numbers(seed ^ RESIDUAL_SEED, Math.toIntExact(sums.count()));
  }

  /** The weight, the same on all ranks: the bias, or factors, which are never 0. */
  public float[] weight(long seed) {
    float[] weight = numbers(seed ^ WEIGHT_SEED, fused.hidden());
    if (fused.form() != Form.BIAS) {
      for (int i = 0; i < weight.length; i++) {
        weight[i] = (float) ((weight[i] + 16) * WEIGHT_UNIT);
      }
    }
    return weight;
  }

  /** The number of sums of squares. */
  public long squaresCount() {
    return AllReduceFusion.squaresCount(sums.type(), sums.count() / fused.hidden(), fused.hidden());
  }

  /**
   * How many elements are not what that seed gives. The last two are looked at only if the form has
   * them.
   */
  public long wrong(long seed, float[] output, float[] residualOut, float[] squares) {
    int hidden = fused.hidden();
    long[] reduced = sums.sums(seed);
    float[] residual = residual(seed);
    float[] weight = weight(seed);
    double[] h = new double[hidden];
    long wrong = 0;
    for (int row = 0; row < output.length / hidden; row++) {
      int begin = row * hidden;
      for (int i = 0; i < hidden; i++) {
        h[i] = reduced[begin + i] + (fused.form() == Form.BIAS ? weight[i] : residual[begin + i]);
      }
      double scale = fused.form() == Form.RMS_NORM ? scaleOf(h) : 1;
      for (int i = 0; i < hidden; i++) {
        double expected = fused.normalises() ? h[i] * scale * weight[i] : h[i];
        wrong += is(expected, output[begin + i]) ? 0 : 1;
        wrong += fused.normalises() && residualOut[begin + i] != h[i] ? 1 : 0;
      }
      if (fused.form() == Form.RMS_FOLD) {
        wrong += wrongSquares(row, h, squares);
      }
    }
    return wrong;
  }

  private static double scaleOf(double[] h) {
    double squares = 0;
    for (double one : h) {
      squares += one * one;
    }
    return 1 / Math.sqrt(squares / h.length + EPS);
  }

  // Of nvrar_bench: a norm may be off by one unit in the last place of 16-bit types and by 16 of
  // float32, a product that is rounded once by half of one.
  private boolean is(double expected, double got) {
    double units =
        switch (fused.form()) {
          case RMS_NORM -> sums.type() == DataType.FLOAT32 ? 16 : 1;
          case RMS_FOLD -> 0.5;
          case RESIDUAL, BIAS -> 0;
        };
    return Math.abs(got - expected) <= units * unitOf(expected);
  }

  private double unitOf(double number) {
    int mantissaBits =
        switch (sums.type()) {
          case BFLOAT16 -> 8;
          case FLOAT16 -> 11;
          default -> 24;
        };
    return number == 0 ? 0 : Math.scalb(1.0, Math.getExponent(number) - mantissaBits + 1);
  }

  // Whole numbers that float32 holds exactly, in whatever order they are added.
  private long wrongSquares(int row, double[] h, float[] squares) {
    int inPart = PART_BYTES / sums.type().sizeBytes();
    int parts = (h.length + inPart - 1) / inPart;
    long wrong = 0;
    for (int part = 0; part < parts; part++) {
      double sum = 0;
      for (int i = part * inPart; i < Math.min((part + 1) * inPart, h.length); i++) {
        sum += h[i] * h[i];
      }
      wrong += squares[row * parts + part] == sum ? 0 : 1;
    }
    return wrong;
  }

  private static float[] numbers(long seed, int count) {
    float[] numbers = new float[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = CollectiveValues.small(seed, i);
    }
    return numbers;
  }
}
