package io.nvrar.internal.flight;

import io.nvrar.internal.binding.CallRecord;
import java.util.List;
import java.util.Objects;

/**
 * What the ranks of one host were doing when their group failed.
 *
 * @param header the group and its failure
 * @param ranks all ranks of the group, in rank order
 */
public record FlightRecord(Header header, List<Rank> ranks) {
  /** With copies of its lists. */
  public FlightRecord {
    ranks = List.copyOf(ranks);
  }

  /**
   * The group and its failure.
   *
   * @param group its name
   * @param groupId differs between groups of the same name; not a secret
   * @param worldSize the number of its ranks
   * @param backend the backend of the group
   * @param build the build id of the native library
   * @param time when this was written, ISO 8601 in UTC
   * @param nanos the same moment by the clock of {@link CallRecord#beginNanos()}
   * @param host where this was written
   * @param writer the rank that wrote it
   * @param kind the kind of failure, such as {@code TIMEOUT}
   * @param message the message of the exception
   * @param failedRank the rank that was lost or that ended the group; -1 if there is none
   * @param missing the ranks that were missing
   */
  public record Header(
      String group,
      String groupId,
      int worldSize,
      String backend,
      String build,
      String time,
      long nanos,
      String host,
      int writer,
      String kind,
      String message,
      int failedRank,
      List<Integer> missing) {
    /** With copies of its lists. */
    public Header {
      Objects.requireNonNull(group, "group");
      Objects.requireNonNull(groupId, "id");
      Objects.requireNonNull(backend, "backend");
      Objects.requireNonNull(build, "build");
      Objects.requireNonNull(time, "time");
      Objects.requireNonNull(host, "host");
      Objects.requireNonNull(kind, "kind");
      Objects.requireNonNull(message, "message");
      missing = List.copyOf(missing);
    }
  }

  /**
   * One rank.
   *
   * @param rank its number
   * @param host where it ran
   * @param pid its process there
   * @param calls its last calls, oldest first; empty if it has made none
   */
  public record Rank(int rank, String host, long pid, List<CallRecord> calls) {
    /** With copies of its lists. */
    public Rank {
      Objects.requireNonNull(host, "host");
      calls = List.copyOf(calls);
    }

    /** The rank's last call. */
    public CallRecord last() {
      return calls.isEmpty() ? CallRecord.NONE : calls.get(calls.size() - 1);
    }
  }
}
