package io.nvrar.examples.llama;

import io.nvrar.CollectiveException;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.exception.RayException;
import java.util.concurrent.TimeUnit;

/** What to show of a failed Ray call. */
final class Failures {
  // A member's death is known to the group well within this.
  private static final long GROUP_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long CHECK_MILLIS = 20;

  private Failures() {}

  /**
   * What an actor has thrown; or, if the actor is gone and Ray knows no more than that, what the
   * group says of it, which names the rank and its process.
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
