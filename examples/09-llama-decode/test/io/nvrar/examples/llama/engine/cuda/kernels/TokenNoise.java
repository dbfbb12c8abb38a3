package io.nvrar.examples.llama.engine.cuda.kernels;

/** The noise of {@code choice.cuh}, and its keys, as Java computes them. */
final class TokenNoise {
  private TokenNoise() {}

  /** The first word of Philox4x32-10. */
  static int bits(long seed, int sequence, int position, int token) {
    int[] counter = {token, position, sequence, 0};
    int firstKey = (int) seed;
    int secondKey = (int) (seed >>> 32);
    for (int round = 0; round < 10; round++) {
      long first = 0xD2511F53L * Integer.toUnsignedLong(counter[0]);
      long second = 0xCD9E8D57L * Integer.toUnsignedLong(counter[2]);
      counter =
          new int[] {
            (int) (second >>> 32) ^ counter[1] ^ firstKey,
            (int) second,
            (int) (first >>> 32) ^ counter[3] ^ secondKey,
            (int) first
          };
      firstKey += 0x9E3779B9;
      secondKey += 0xBB67AE85;
    }
    return counter[0];
  }

  /** Noise of a Gumbel distribution. */
  static double gumbel(int bits) {
    float drawn = Math.fma((float) Integer.toUnsignedLong(bits), 0x1p-32f, 0x1p-33f);
    return -Math.log(-Math.log1p(-drawn));
  }

  /** The key of a token's value; compared as if it had no sign. */
  static long key(float value, int token) {
    int bits = Float.floatToRawIntBits(value);
    int order = Float.isNaN(value) ? -1 : bits ^ (bits < 0 ? -1 : Integer.MIN_VALUE);
    return (long) order << 32 | Integer.toUnsignedLong(~token);
  }

  static float value(long key) {
    int order = (int) (key >>> 32);
    return Float.intBitsToFloat(order < 0 ? order ^ Integer.MIN_VALUE : ~order);
  }

  static int token(long key) {
    return ~(int) key;
  }
}
