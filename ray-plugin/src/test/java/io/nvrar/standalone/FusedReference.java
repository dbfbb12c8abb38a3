package io.nvrar.standalone;

import io.nvrar.AllReduceFusion.Form;
import io.nvrar.DataType;

/**
 * What a fused all-reduce gives, computed in float32 in the order of operations that {@code
 * nvrar.h} states, so that the bits are those of every backend.
 */
final class FusedReference {
  private static final int PART_WORDS = 32;
  private static final int RUN_PARTS = 4;
  private static final int LANES = 32;

  /** The sums with the residual, where the form has them. */
  final float[] residualOut;

  final float[] output;

  /** The sums of squares of all parts of all rows. */
  final float[] squares;

  private final DataType type;
  private final int hidden;
  private final int parts;

  /**
   * Computes it.
   *
   * @param sums the sums over ranks, of one or more rows
   * @param residual as many as sums
   * @param weight one row
   */
  FusedReference(
      Form form, DataType type, float[] sums, float[] residual, float[] weight, float eps) {
    this.type = type;
    hidden = weight.length;
    parts = (hidden * type.sizeBytes() + 4 * PART_WORDS - 1) / (4 * PART_WORDS);
    output = new float[sums.length];
    residualOut = new float[sums.length];
    squares = new float[sums.length / hidden * parts];
    for (int row = 0; row < sums.length / hidden; row++) {
      int first = row * hidden;
      for (int i = first; i < first + hidden; i++) {
        residualOut[i] = stored(type, sums[i] + residual[i]);
      }
      sumSquares(row);
      float scale = 1 / (float) Math.sqrt(sumOfRow(row) / hidden + eps);
      for (int i = 0; i < hidden; i++) {
        int at = first + i;
        float h = residualOut[at];
        output[at] =
            switch (form) {
              case RESIDUAL -> h;
              case BIAS -> stored(type, sums[at] + weight[i]);
              case RMS_NORM -> stored(type, h * scale * weight[i]);
              case RMS_FOLD -> stored(type, h * weight[i]);
            };
      }
    }
  }

  private void sumSquares(int row) {
    int perWord = 4 / type.sizeBytes();
    for (int part = 0; part < parts; part++) {
      float[] words = new float[PART_WORDS];
      for (int word = 0; word < PART_WORDS; word++) {
        int i = (part * PART_WORDS + word) * perWord;
        if (i < hidden) {
          float low = residualOut[row * hidden + i];
          float high = perWord == 1 ? 0 : residualOut[row * hidden + i + 1];
          words[word] = low * low + high * high;
        }
      }
      squares[row * parts + part] = treeSum(words);
    }
  }

  private float sumOfRow(int row) {
    float[] lanes = new float[LANES];
    for (int run = 0; run * RUN_PARTS < parts; run++) {
      float[] sums = new float[RUN_PARTS];
      for (int i = 0; i < RUN_PARTS && run * RUN_PARTS + i < parts; i++) {
        sums[i] = squares[row * parts + run * RUN_PARTS + i];
      }
      lanes[run % LANES] += treeSum(sums);
    }
    return treeSum(lanes);
  }

  /** Adds neighbours until one is left. */
  private static float treeSum(float[] values) {
    for (int count = values.length / 2; count > 0; count /= 2) {
      for (int i = 0; i < count; i++) {
        values[i] = values[2 * i] + values[2 * i + 1];
      }
    }
    return values[0];
  }

  /** The sum of the ranks' values, in rank order within a node, then over at most two nodes. */
  static float[] sum(DataType type, int ranksPerNode, float[][] ofRanks) {
    float[] sums = new float[ofRanks[0].length];
    for (int i = 0; i < sums.length; i++) {
      float sum = sumOfNode(ofRanks, 0, ranksPerNode, i);
      if (ranksPerNode < ofRanks.length) {
        sum += sumOfNode(ofRanks, ranksPerNode, ofRanks.length, i);
      }
      sums[i] = stored(type, sum);
    }
    return sums;
  }

  private static float sumOfNode(float[][] ofRanks, int from, int to, int i) {
    float sum = ofRanks[from][i];
    for (int rank = from + 1; rank < to; rank++) {
      sum += ofRanks[rank][i];
    }
    return sum;
  }

  static float stored(DataType type, float value) {
    return (float) Elements.stored(type, value);
  }
}
