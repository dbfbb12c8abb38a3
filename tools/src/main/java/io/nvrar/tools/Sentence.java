package io.nvrar.tools;

import java.util.Locale;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Reduces a failure to the one sentence that is shown to the user. */
final class Sentence {
  private Sentence() {}

  /**
   * The most informative message: that of the outermost exception, or, if it only wraps another
   * (Ray's task errors, execution exceptions), that of the wrapped one. Only the first line,
   * without the stack trace that Ray puts into its messages.
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
    // For other exceptions the class name is added, because the message alone may say too little:
    // that of a NoSuchFileException is a bare path.
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
