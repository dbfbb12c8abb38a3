package io.nvrar.examples.llama.engine.cpu;

import io.nvrar.examples.llama.weights.LinearWeights;
import java.util.Arrays;

/**
 * The hot loops. All are of one form, {@code y[o] += x[i] * w[i][o]} with the inner loop over o:
 * neighbouring outputs do not depend on each other and all arrays have the same index, so C2 turns
 * it into vector instructions, which it may not do for a sum along the loop.
 */
final class Kernels {
  // Outputs of a block stay in the first-level cache while all inputs pass: 2 KiB.
  private static final int OUTPUT_BLOCK = 512;
  // With OUTPUT_BLOCK: 128 KiB of weights, which stay in the second-level cache for all rows.
  private static final int INPUT_BLOCK = 64;

  private Kernels() {}

  /** {@code y = x W + b} for some rows, b only for a column-parallel layer. */
  static void columnParallel(LinearWeights linear, float[][] x, int rows, float[][] y) {
    float[] bias = linear.bias();
    for (int row = 0; row < rows; row++) {
      if (bias == null) {
        Arrays.fill(y[row], 0, linear.outputs(), 0f);
      } else {
        System.arraycopy(bias, 0, y[row], 0, bias.length);
      }
    }
    multiply(linear.weight(), x, rows, y, linear.outputs());
  }

  /** {@code y = x W}: a partial sum, to be reduced over the ranks. */
  static void rowParallel(LinearWeights linear, float[][] x, int rows, float[][] y) {
    for (int row = 0; row < rows; row++) {
      Arrays.fill(y[row], 0, linear.outputs(), 0f);
    }
    multiply(linear.weight(), x, rows, y, linear.outputs());
  }

  /** {@code y += x w} for some rows. */
  static void multiply(float[][] w, float[][] x, int rows, float[][] y, int outputs) {
    for (int o = 0; o < outputs; o += OUTPUT_BLOCK) {
      int end = Math.min(outputs, o + OUTPUT_BLOCK);
      for (int i = 0; i < w.length; i += INPUT_BLOCK) {
        int count = Math.min(INPUT_BLOCK, w.length - i);
        for (int row = 0; row < rows; row++) {
          accumulate(w, i, x[row], i, count, y[row], o, end);
        }
      }
    }
  }

  /** {@code y[o] += x[xFrom + i] * w[wFrom + i][o]} for i below count and o from {@code from}. */
  static void accumulate(
      float[][] w, int wFrom, float[] x, int xFrom, int count, float[] y, int from, int to) {
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      addScaled(
          y,
          x[xFrom + i],
          w[wFrom + i],
          x[xFrom + i + 1],
          w[wFrom + i + 1],
          x[xFrom + i + 2],
          w[wFrom + i + 2],
          x[xFrom + i + 3],
          w[wFrom + i + 3],
          from,
          to);
    }
    for (; i < count; i++) {
      addScaled(y, x[xFrom + i], w[wFrom + i], from, to);
    }
  }

  private static void addScaled(
      float[] y,
      float a,
      float[] p,
      float b,
      float[] q,
      float c,
      float[] r,
      float d,
      float[] s,
      int from,
      int to) {
    for (int o = from; o < to; o++) {
      y[o] += (a * p[o] + b * q[o]) + (c * r[o] + d * s[o]);
    }
  }

  private static void addScaled(float[] y, float a, float[] p, int from, int to) {
    for (int o = from; o < to; o++) {
      y[o] += a * p[o];
    }
  }

  /** {@code y += x}. */
  static void add(float[] y, float[] x) {
    for (int i = 0; i < y.length; i++) {
      y[i] += x[i];
    }
  }

  /** RMSNorm: {@code y = x / sqrt(mean(x^2) + epsilon) * scale}. */
  static void rmsNorm(float[] x, float[] scale, float epsilon, float[] y) {
    double sum = 0;
    for (float number : x) {
      sum += (double) number * number;
    }
    float factor = (float) (1 / Math.sqrt(sum / x.length + epsilon));
    for (int i = 0; i < x.length; i++) {
      y[i] = x[i] * factor * scale[i];
    }
  }

  /** SwiGLU: {@code y = silu(gate) * up}, where a row of x is gate, then up. */
  static void swiGlu(float[] x, int width, float[] y) {
    for (int i = 0; i < width; i++) {
      float gate = x[i];
      y[i] = gate / (1f + (float) Math.exp(-gate)) * x[width + i];
    }
  }

  /** Softmax of the first {@code count} numbers times {@code factor}, in place. */
  static void softmax(float[] x, int count, float factor) {
    float max = Float.NEGATIVE_INFINITY;
    for (int i = 0; i < count; i++) {
      max = Math.max(max, x[i]);
    }
    float sum = 0;
    for (int i = 0; i < count; i++) {
      x[i] = (float) Math.exp((x[i] - max) * factor);
      sum += x[i];
    }
    for (int i = 0; i < count; i++) {
      x[i] /= sum;
    }
  }
}
