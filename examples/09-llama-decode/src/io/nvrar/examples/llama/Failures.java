package io.nvrar.examples.llama;

import io.nvrar.CollectiveException;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.exception.RayException;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Chooses the exception to show for a failed Ray call. */
final class Failures {
  // The group detects a member's death well within this time.
  private static final long GROUP_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long CHECK_MILLIS = 20;

  // What Ray's Java says for an error that it has no exception for: the digits of its number, as
  // bytes.
  private static final Pattern UNKNOWN_TO_JAVA =
      Pattern.compile("Unrecognized metadata \\[([0-9]+(?:, [0-9]+)*)\\]");
  private static final String OUT_OF_MEMORY = "22";

  private Failures() {}

  /** A sentence for an error of Ray that its Java does not know; null if it is none. */
  static @Nullable RuntimeException ofRay(RuntimeException seen) {
    Matcher matcher = UNKNOWN_TO_JAVA.matcher(String.valueOf(seen.getMessage()));
    if (!matcher.find()) {
      return null;
    }
    StringBuilder number = new StringBuilder();
    for (String digit : matcher.group(1).split(", ", -1)) {
      number.append((char) Integer.parseInt(digit));
    }
    return new ModelException(
        number.toString().equals(OUT_OF_MEMORY)
            ? "Ray has ended a rank because the memory of its node was nearly used up, by"
                + " RAY_memory_usage_threshold: a smaller model, fewer or shorter sequences, or"
                + " more nodes take less."
            : String.format(
                Locale.ROOT,
                "A rank has ended by Ray's error %s, for which Ray's Java has no exception.",
                number),
        seen);
  }

  /**
   * The exception of an actor; or, if the actor has died and Ray knows only that, the group's
   * failure, which names the rank and its process.
   */
  static RuntimeException telling(RuntimeException seen, RayCollectiveGroup group) {
    RuntimeException inner = seen;
    while (inner instanceof RayException && inner.getCause() instanceof RuntimeException cause) {
      inner = cause;
    }
    RuntimeException known = ofRay(inner);
    if (known != null) {
      return known;
    }
    if (!(inner instanceof RayException) || inner.getCause() != null) {
      return inner;
    }
    CollectiveException failure = group.failure();
    long deadline = System.nanoTime() + GROUP_NANOS;
    try {
      while (failure == null && System.nanoTime() < deadline) {
        Thread.sleep(CHECK_MILLIS);
        failure = group.failure();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return failure == null ? inner : failure;
  }
}
