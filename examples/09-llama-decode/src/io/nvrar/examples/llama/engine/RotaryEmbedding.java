package io.nvrar.examples.llama.engine;

import io.nvrar.examples.llama.weights.LlamaConfig;

/**
 * Turns pairs of a head's numbers by angles that grow with the position. As in transformers, number
 * i of a head is paired with number i + headSize / 2.
 */
public final class RotaryEmbedding {
  private final int half;
  private final float[] frequencies;
  private float[][] cosines = {};
  private float[][] sines = {};

  /** For a model's heads. */
  public RotaryEmbedding(LlamaConfig config) {
    half = config.headSize() / 2;
    frequencies = new float[half];
    for (int i = 0; i < half; i++) {
      double frequency = Math.pow(config.rope().theta(), -2.0 * i / config.headSize());
      frequencies[i] = (float) config.rope().scale(frequency);
    }
  }

  /** Computes the angles of positions below {@code positions}. */
  public void reserve(int positions) {
    if (positions <= cosines.length) {
      return;
    }
    cosines = new float[positions][half];
    sines = new float[positions][half];
    for (int position = 0; position < positions; position++) {
      for (int i = 0; i < half; i++) {
        // The product is rounded to float32 as transformers does: its error grows with the
        // position, but a more precise angle would give a different model.
        float angle = position * frequencies[i];
        cosines[position][i] = (float) Math.cos(angle);
        sines[position][i] = (float) Math.sin(angle);
      }
    }
  }

  /** Turns the head whose first number is {@code row[from]}. */
  public void rotate(float[] row, int from, int position) {
    float[] cosine = cosines[position];
    float[] sine = sines[position];
    for (int i = 0; i < half; i++) {
      float x = row[from + i];
      float y = row[from + half + i];
      row[from + i] = x * cosine[i] - y * sine[i];
      row[from + half + i] = y * cosine[i] + x * sine[i];
    }
  }

  /**
   * Cosine and sine of a position's angles, in turn.
   *
   * @param target gets {@code headSize} numbers, from {@code at} on
   */
  public void copyAngles(int position, float[] target, int at) {
    for (int i = 0; i < half; i++) {
      target[at + 2 * i] = cosines[position][i];
      target[at + 2 * i + 1] = sines[position][i];
    }
  }
}
