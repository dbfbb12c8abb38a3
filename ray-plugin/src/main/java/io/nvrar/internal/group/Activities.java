package io.nvrar.internal.group;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.NativeCommunicator;
import io.nvrar.internal.wire.Phrases;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Describes what the ranks were doing when a group failed. The information comes from the memory
 * that the ranks of one host share, so no rank has to answer, and dead ranks are included. The
 * calls of ranks on other hosts may be unknown.
 */
final class Activities {
  private static final String ELSEWHERE = "on another host";

  private Activities() {}

  /**
   * Describes all ranks, this member first, as a clause for the end of a sentence, beginning with
   * "; ".
   */
  static String seenBy(NativeCommunicator comm, int rank, int worldSize) {
    String own =
        String.format(Locale.ROOT, "; this member (rank %d) %s", rank, ofMember(comm.call(rank)));
    String others =
        ofRanks(comm::call, IntStream.range(0, worldSize).filter(r -> r != rank).toArray());
    return others.isEmpty() ? own : own + "; " + others;
  }

  /** Describes all ranks as a clause for the end of a sentence, beginning with "; ". */
  static String ofAll(NativeCommunicator comm, int worldSize) {
    return "; " + ofRanks(comm::call, IntStream.range(0, worldSize).toArray());
  }

  private static String ofMember(CallRecord call) {
    return switch (call.state()) {
      case NONE -> "had made no call yet";
      case RUNNING, FAILED -> "was in " + call.description();
      case DONE -> "was in no call, its last was " + call.description();
      case QUEUED -> "had queued " + call.description();
      case UNKNOWN -> throw new IllegalArgumentException("a member knows its own calls");
    };
  }

  static String ofRanks(IntFunction<CallRecord> calls, int... ranks) {
    Map<String, List<Integer>> byDoing = new LinkedHashMap<>();
    for (int rank : ranks) {
      byDoing.computeIfAbsent(doing(calls.apply(rank)), doing -> new ArrayList<>()).add(rank);
    }
    // The smallest set of ranks comes first: it is what the reader looks for.
    List<Map.Entry<String, List<Integer>>> told =
        byDoing.entrySet().stream()
            .sorted(Comparator.comparingInt(entry -> entry.getValue().size()))
            .limit(Phrases.MOST_CLAUSES)
            .toList();
    String text =
        told.stream()
            .map(entry -> clause(entry.getValue(), entry.getKey()))
            .collect(Collectors.joining(", "));
    int untold = ranks.length - told.stream().mapToInt(entry -> entry.getValue().size()).sum();
    return untold == 0 ? text : text + ", " + untold + " other ranks elsewhere";
  }

  private static String clause(List<Integer> ranks, String doing) {
    boolean one = ranks.size() == 1;
    String verb =
        doing.startsWith("in ")
            ? (one ? "was " : "were ")
            : doing.equals(ELSEWHERE) ? (one ? "is " : "are ") : "";
    return Phrases.ranks(ranks.stream().mapToInt(Integer::intValue).toArray()) + " " + verb + doing;
  }

  private static String doing(CallRecord call) {
    return switch (call.state()) {
      case NONE -> "had made no call yet";
      case RUNNING, FAILED -> "in " + call.description();
      case DONE -> "had finished " + call.description();
      case QUEUED -> "had queued " + call.description();
      case UNKNOWN -> ELSEWHERE;
    };
  }
}
