package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.time.Duration;
import java.util.StringJoiner;

/** Phrases that several messages share. */
public final class Phrases {
  private static final int MAX_CLAUSE_CHARS = 497; // and three dots

  // The limits of native/src/api/report.cpp, so that its sentences and these name ranks alike.
  private static final int MOST_NAMED = 8; // more ranks than this are named by ranges
  private static final int MOST_RANGES = 16; // more ranges than this are counted

  /** What ranks do is told of so many different things. */
  public static final int MOST_CLAUSES = 8;

  private Phrases() {}

  /**
   * {@code rank 2}, {@code ranks 0, 1, 3}, {@code ranks 0 to 62, 64, 66 to 127} or {@code ranks 1,
   * 3, 5 and 253 more}.
   */
  public static String ranks(int... ranks) {
    return (ranks.length == 1 ? "rank " : "ranks ") + numbers(ranks);
  }

  private static String numbers(int... ranks) {
    StringJoiner numbers = new StringJoiner(", ");
    int ranges = 0;
    int next = 0;
    while (next < ranks.length) {
      if (ranges == MOST_RANGES) {
        return numbers + " and " + (ranks.length - next) + " more";
      }
      int last = ranks.length > MOST_NAMED ? endOfRun(next, ranks) : next;
      numbers.add(last == next ? "" + ranks[next] : ranks[next] + " to " + ranks[last]);
      ranges++;
      next = last + 1;
    }
    return numbers.toString();
  }

  private static int endOfRun(int first, int... ranks) {
    int last = first;
    while (last + 1 < ranks.length && ranks[last + 1] == ranks[last] + 1) {
      last++;
    }
    return last;
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
