package io.nvrar.internal.flight;

import io.nvrar.internal.binding.CallRecord;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;

/**
 * What the ranks of one host were doing when their group failed, and what that host knew of ranks
 * on others; or what several hosts have recorded of one group.
 *
 * @param header the group and its failure
 * @param ranks all ranks of the group, in rank order
 * @param hosts the hosts whose ranks have all of their last calls here
 */
public record FlightRecord(Header header, List<Rank> ranks, Set<String> hosts) {
  /** The kind of failure in a record that was written on request. */
  public static final String NO_FAILURE = "NONE";

  /** With copies of its collections. */
  public FlightRecord {
    ranks = List.copyOf(ranks);
    hosts = Set.copyOf(hosts);
  }

  /** The record of one host. */
  public FlightRecord(Header header, List<Rank> ranks) {
    this(header, ranks, Set.of(header.host()));
  }

  /** Whether it has all of a rank's last calls. */
  public boolean isComplete(int rank) {
    return hosts.contains(ranks.get(rank).host());
  }

  /** Whether {@code other} is about the same group. */
  public boolean isOfSameGroup(FlightRecord other) {
    return header.groupId().equals(other.header.groupId()) && ranks.size() == other.ranks.size();
  }

  /**
   * This record, with the calls of the ranks of another host from that host's record of the same
   * group. Their times are moved to the clock of this record, as {@link ClockOffset} says.
   */
  public FlightRecord with(FlightRecord other) {
    long offset = ClockOffset.between(this, other).nanos();
    List<Rank> all = new ArrayList<>();
    for (Rank rank : ranks) {
      all.add(
          !isComplete(rank.rank()) && other.isComplete(rank.rank())
              ? other.ranks.get(rank.rank()).moved(offset)
              : rank);
    }
    Set<String> both = new HashSet<>(hosts);
    both.addAll(other.hosts);
    return new FlightRecord(header, all, both);
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
   * @param kind the kind of failure, such as {@code TIMEOUT}, or {@link #NO_FAILURE}
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

    private Rank moved(long nanos) {
      return new Rank(rank, host, pid, calls.stream().map(call -> call.moved(nanos)).toList());
    }

    /** The rank's last call. */
    public CallRecord last() {
      return calls.isEmpty() ? CallRecord.NONE : calls.get(calls.size() - 1);
    }
  }
}
