package io.nvrar.bootstrap;

import java.time.Duration;
import java.util.Arrays;
import java.util.stream.Collectors;

/** Wordings that several messages share. */
final class Phrases {
  private Phrases() {}

  /** {@code rank 2} or {@code ranks 0, 1, 3}. */
  static String ranks(int... ranks) {
    return (ranks.length == 1 ? "rank " : "ranks ")
        + Arrays.stream(ranks).mapToObj(Integer::toString).collect(Collectors.joining(", "));
  }

  /** {@code 30 s}, {@code 1.5 s} or {@code 20 ms}. */
  static String seconds(Duration duration) {
    long millis = duration.toMillis();
    if (millis < 1000) {
      return millis + " ms";
    }
    return millis % 1000 == 0 ? millis / 1000 + " s" : Math.round(millis / 100.0) / 10.0 + " s";
  }
}
