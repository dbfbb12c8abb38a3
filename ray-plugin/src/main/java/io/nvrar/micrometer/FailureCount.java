package io.nvrar.micrometer;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * How often a group has failed, by cause: once at most, but a counter can be summed over groups.
 */
final class FailureCount {
  /** The causes, as the values of a tag. */
  enum Cause {
    PEER_LOST("peer_lost"),
    TIMEOUT("timeout"),
    MISMATCH("mismatch"),
    FATAL("fatal"),
    /** An abort, or a peer that closed while others still called. */
    OTHER("other");

    final String tag;

    Cause(String tag) {
      this.tag = tag;
    }

    static Cause of(CollectiveException failure) {
      if (failure instanceof PeerLostException) {
        return PEER_LOST;
      }
      if (failure instanceof CollectiveTimeoutException) {
        return TIMEOUT;
      }
      if (failure instanceof GroupMismatchException) {
        return MISMATCH;
      }
      return failure instanceof CollectiveFatalException ? FATAL : OTHER;
    }
  }

  private final Map<Cause, Integer> counts = new ConcurrentHashMap<>();

  void add(CollectiveException failure) {
    counts.merge(Cause.of(failure), 1, Integer::sum);
  }

  boolean isEmpty() {
    return counts.isEmpty();
  }

  int of(Cause cause) {
    return counts.getOrDefault(cause, 0);
  }
}
