package io.nvrar.examples.llama.engine.cpu;

/**
 * One layer's keys and values of this rank's heads, for all sequences.
 *
 * <p>Keys are kept {@code [headSize][position]}, values {@code [position][headSize]}: scores and
 * weighted values then run over adjacent numbers (see {@link Kernels}).
 */
final class KvCache {
  private final int headSize;
  private final float[][][][] keys;
  private final float[][][][] values;

  KvCache(int heads, int headSize, int[] capacities) {
    this.headSize = headSize;
    keys = new float[capacities.length][heads][][];
    values = new float[capacities.length][heads][][];
    for (int sequence = 0; sequence < capacities.length; sequence++) {
      for (int head = 0; head < heads; head++) {
        keys[sequence][head] = new float[headSize][capacities[sequence]];
        values[sequence][head] = new float[capacities[sequence]][headSize];
      }
    }
  }

  /** Stores a head's key and value, which begin at two places of a row. */
  void put(int sequence, int head, int position, float[] row, int keyAt, int valueAt) {
    float[][] key = keys[sequence][head];
    for (int i = 0; i < headSize; i++) {
      key[i][position] = row[keyAt + i];
    }
    System.arraycopy(row, valueAt, values[sequence][head][position], 0, headSize);
  }

  float[][] keys(int sequence, int head) {
    return keys[sequence][head];
  }

  float[][] values(int sequence, int head) {
    return values[sequence][head];
  }
}
