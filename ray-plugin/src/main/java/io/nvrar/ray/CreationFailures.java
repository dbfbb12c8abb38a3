package io.nvrar.ray;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * Collects the failures of one group creation by rank, and picks the failure that explains the
 * others.
 */
final class CreationFailures {

  private static final String DRIVER = "driver";

  private final String name;
  private final List<Failure> failures = new ArrayList<>();

  CreationFailures(String name) {
    this.name = name;
  }

  boolean isEmpty() {
    return failures.isEmpty();
  }

  /** Adds a failure of the driver itself. */
  void add(RuntimeException cause) {
    failures.add(new Failure(DRIVER, cause));
  }

  /**
   * Adds the failure of a rank's task; {@code thrown} is the exception that Ray threw for the task.
   */
  void add(int rank, RuntimeException thrown) {
    failures.add(new Failure("rank " + rank, unwrap(rank, thrown)));
  }

  /**
   * The failure to throw to the user. The other ranks' failures are added as suppressed exceptions
   * if they differ.
   */
  RuntimeException mostTelling() {
    List<Failure> sorted = new ArrayList<>(failures);
    // Of equals the driver's comes last: it may not have reached a group that had failed already.
    sorted.sort(
        Comparator.<Failure>comparingInt(failure -> severity(failure.cause))
            .thenComparing(failure -> failure.where.equals(DRIVER)));
    RuntimeException first = sorted.get(0).cause;
    Set<String> told = new HashSet<>();
    told.add(first.toString());
    for (Failure failure : sorted) {
      if (told.add(failure.cause.toString())) {
        first.addSuppressed(
            new CollectiveException(
                failure.where + ": " + failure.cause.getMessage(), failure.cause));
      }
    }
    return first;
  }

  /** What Ray's exceptions carry, which may be one of Ray's own. */
  static Throwable cause(RuntimeException thrown) {
    Throwable cause = thrown;
    while (cause instanceof RayException && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  private RuntimeException unwrap(int rank, RuntimeException thrown) {
    Throwable cause = cause(thrown);
    if (cause instanceof RayActorException) {
      return new CollectiveException(
          String.format(
              Locale.ROOT,
              "the actor of rank %d died while group '%s' was created; the log of its worker in Ray's session directory says why",
              rank,
              name),
          cause);
    }
    if (cause instanceof RuntimeException unchecked && !(cause instanceof RayException)) {
      return unchecked;
    }
    return new CollectiveException(
        String.format(
            Locale.ROOT, "rank %d could not join group '%s': %s", rank, name, cause.getMessage()),
        cause);
  }

  /**
   * A failure of smaller severity explains one of larger: a peer is lost because it could not load
   * its library, for example.
   */
  private static int severity(RuntimeException cause) {
    if (cause instanceof GroupMismatchException) {
      return 0;
    }
    if (cause instanceof BackendUnavailableException || cause instanceof CollectiveFatalException) {
      return 1;
    }
    if (!(cause instanceof CollectiveException)) {
      return 2;
    }
    if (cause instanceof PeerLostException) {
      return 3;
    }
    if (cause.getCause() instanceof RayActorException) {
      return 4;
    }
    return cause instanceof CollectiveTimeoutException ? 6 : 5;
  }

  private record Failure(String where, RuntimeException cause) {}
}
