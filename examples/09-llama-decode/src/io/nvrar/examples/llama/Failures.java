package io.nvrar.examples.llama;

import io.nvrar.CollectiveException;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.exception.RayException;
import java.util.concurrent.TimeUnit;

/** Chooses the exception to show for a failed Ray call. */
final class Failures {
  // The group detects a member's death well within this time.
  private static final long GROUP_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long CHECK_MILLIS = 20;

  private Failures() {}

  /**
   * The exception of an actor; or, if the actor has died and Ray knows only that, the group's
   * failure, which names the rank and its process.
   */
  static RuntimeException telling(RuntimeException seen, RayCollectiveGroup group) {
    RuntimeException inner = seen;
    while (inner instanceof RayException && inner.getCause() instanceof RuntimeException cause) {
      inner = cause;
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
