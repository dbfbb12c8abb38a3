package io.nvrar.examples.djl;

import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;

/** The weights of two linear layers with a ReLU between them, or one rank's shard of them. */
record Mlp(NDArray up, NDArray down) {

  /**
   * The same weights on every rank: {@code up} is [hidden, width], {@code down} [width, hidden].
   */
  static Mlp random(NDManager manager, int seed, long hidden, long width) {
    return new Mlp(
        manager.create(normal(seed, hidden * width), new Shape(hidden, width)),
        manager.create(normal(seed + 1, width * hidden), new Shape(width, hidden)));
  }

  static NDArray input(NDManager manager, int seed, long rows, long hidden) {
    return manager.create(normal(seed, rows * hidden), new Shape(rows, hidden));
  }

  // The engine's own generator is one for the whole process, which ranks that are threads share.
  private static float[] normal(int seed, long count) {
    java.util.Random random = new java.util.Random(seed);
    float[] values = new float[Math.toIntExact(count)];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) random.nextGaussian();
    }
    return values;
  }

  /**
   * The part of a rank: columns of {@code up} and the rows of {@code down} that they meet, as even
   * as the width allows. ReLU is by element, so a rank needs no other's part of the width.
   */
  Mlp shard(int rank, int worldSize) {
    long width = up.getShape().get(1);
    long from = width * rank / worldSize;
    long to = width * (rank + 1) / worldSize;
    return new Mlp(up.get(":, " + from + ":" + to), down.get(from + ":" + to));
  }

  /** {@code relu(x * up) * down}: of a shard, a partial sum. */
  NDArray apply(NDArray x) {
    return x.matMul(up).getNDArrayInternal().relu().matMul(down);
  }

  /** A manager of PyTorch's arrays on the CPU, whichever other engines are there. */
  static NDManager manager() {
    return Engine.getEngine("PyTorch").newBaseManager(ai.djl.Device.cpu());
  }
}
