package io.nvrar.tools;

import java.util.Locale;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The one sentence that a user reads of a failure. */
final class Sentence {
  private Sentence() {}

  /**
   * The message that says most: of the outermost exception, or, where that one only wraps another
   * (Ray's task errors, execution exceptions), of what it wraps. Only the first line, without the
   * stack trace that Ray puts into its messages.
   */
  static String of(Throwable failure) {
    Throwable telling = failure;
    while (onlyWraps(telling)) {
      telling = Objects.requireNonNull(telling.getCause());
    }
    @Nullable String message = telling.getMessage();
    String name = telling.getClass().getSimpleName();
    if (message == null || message.isBlank()) {
      return name;
    }
    String line = message.strip().lines().findFirst().orElseThrow();
    // Of a foreign exception the class says what the message leaves out: a NoSuchFileException's
    // message is a bare path.
    return telling.getClass().getName().startsWith("io.nvrar.") || line.contains(" ")
        ? line
        : name + ": " + line;
  }

  private static boolean onlyWraps(Throwable failure) {
    @Nullable Throwable cause = failure.getCause();
    if (cause == null || cause == failure) {
      return false;
    }
    @Nullable String message = failure.getMessage();
    return message == null
        || message.equals(cause.toString())
        || failure.getClass().getName().startsWith("io.ray.")
        || failure.getClass().getName().toLowerCase(Locale.ROOT).endsWith("executionexception");
  }
}
