package io.nvrar.it.soak.call;

import java.util.List;
import java.util.SplittableRandom;

/**
 * A deterministic random generator: its draws depend only on the numbers it is created from, so all
 * processes draw the same.
 */
public final class Dice {
  private static final long GOLDEN = 0x9E37_79B9_7F4A_7C15L;

  private final SplittableRandom random;

  private Dice(long seed) {
    random = new SplittableRandom(seed);
  }

  /** Creates a generator for a path of numbers, such as (seed, round, group). */
  public static Dice of(long... path) {
    long state = 0;
    for (long part : path) {
      state = mix(state + GOLDEN + mix(part));
    }
    return new Dice(state);
  }

  /** A bijection that spreads every bit over all (SplitMix64's finisher). */
  static long mix(long value) {
    long z = (value ^ (value >>> 30)) * 0xBF58_476D_1CE4_E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D0_49BB_1331_11EBL;
    return z ^ (z >>> 31);
  }

  public long next() {
    return random.nextLong();
  }

  /** From {@code low} to {@code high}, both included. */
  public int between(int low, int high) {
    return random.nextInt(low, high + 1);
  }

  public boolean chance(double probability) {
    return random.nextDouble() < probability;
  }

  public <T> T pick(List<T> among) {
    return among.get(random.nextInt(among.size()));
  }

  /** From 1 to {@code high}, with every order of magnitude equally likely. */
  public int magnitude(int high) {
    return (int) Math.min(high, Math.exp(random.nextDouble() * Math.log(high + 1.0)));
  }

  /** 0 to {@code n - 1} in random order. */
  public int[] permutation(int n) {
    int[] order = new int[n];
    for (int i = 0; i < n; i++) {
      int j = random.nextInt(i + 1);
      order[i] = order[j];
      order[j] = i;
    }
    return order;
  }
}
