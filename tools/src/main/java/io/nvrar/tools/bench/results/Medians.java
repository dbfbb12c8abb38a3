package io.nvrar.tools.bench.results;

import java.util.List;

/** Computes medians. */
public final class Medians {
  private Medians() {}

  public static double of(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    int half = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(half)
        : (sorted.get(half - 1) + sorted.get(half)) / 2;
  }
}
