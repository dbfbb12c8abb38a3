package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.time.Duration;
import java.util.Arrays;
import java.util.stream.Collectors;

/** Phrases that several messages share. */
public final class Phrases {
  private static final int MAX_CLAUSE_CHARS = 497; // and three dots

  private Phrases() {}

  /** {@code rank 2} or {@code ranks 0, 1, 3}. */
  public static String ranks(int... ranks) {
    return (ranks.length == 1 ? "rank " : "ranks ")
        + Arrays.stream(ranks).mapToObj(Integer::toString).collect(Collectors.joining(", "));
  }

  /** An exception's class and message on one line, as the end of a sentence. */
  public static String clause(Throwable thrown) {
    if (thrown == null) {
      throw new IllegalArgumentException("reason is null, abort needs an exception or a text");
    }
    String message;
    try {
      message = thrown.getMessage();
    } catch (RuntimeException e) { // getMessage may be overridden, and may throw
      message = null;
    }
    String name = thrown.getClass().getName();
    String line = message == null ? name : name + ": " + message;
    return Printable.of(line.replaceAll("\\s+", " ").strip(), MAX_CLAUSE_CHARS);
  }

  /** {@code 30 s}, {@code 1.5 s} or {@code 20 ms}. */
  public static String seconds(Duration duration) {
    long millis = duration.toMillis();
    if (millis < 1000) {
      return millis + " ms";
    }
    return millis % 1000 == 0 ? millis / 1000 + " s" : Math.round(millis / 100.0) / 10.0 + " s";
  }
}
