package io.nvrar.internal.flight;

import io.nvrar.internal.binding.CallRecord;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Determines from a flight record which ranks made a group fail, and in which call, as far as the
 * record shows.
 */
public final class PostMortem {
  private static final Pattern SPLIT = Pattern.compile("split #\\d+");

  private final FlightRecord record;

  private PostMortem(FlightRecord record) {
    this.record = record;
  }

  /**
   * The result.
   *
   * @param ranks the ranks at fault; empty if the file does not show it, or if no member is at
   *     fault
   * @param sentence names them and the call
   */
  public record Fault(List<Integer> ranks, String sentence) {
    /** With copies of its lists. */
    public Fault {
      ranks = List.copyOf(ranks);
    }
  }

  /** Analyses a record. */
  public static Fault of(FlightRecord record) {
    PostMortem examination = new PostMortem(record);
    return switch (record.header().kind()) {
      case "PEER_LOST" -> examination.lost();
      case "TIMEOUT" -> examination.timedOut();
      case "MISMATCH" -> examination.differed();
      case FlightRecord.NO_FAILURE ->
          new Fault(List.of(), "the group had not failed when this was written");
      case "DRIVER" ->
          new Fault(List.of(), "the driver ended the group, or was lost: no rank is at fault");
      default -> examination.ended();
    };
  }

  private Fault lost() {
    int rank = record.header().failedRank();
    return rank < 0
        ? new Fault(
            List.of(),
            "a process was lost that is not a member of this group but of a group it was split from")
        : new Fault(
            List.of(rank),
            String.format(Locale.ROOT, "rank %d was lost; it %s", rank, doing(rank)));
  }

  private Fault ended() {
    int rank = record.header().failedRank();
    return rank < 0
        ? unknown()
        : new Fault(
            List.of(rank),
            String.format(Locale.ROOT, "rank %d ended the group; it %s", rank, doing(rank)));
  }

  private static Fault unknown() {
    return new Fault(List.of(), "the file does not show which rank is at fault");
  }

  private Fault timedOut() {
    Matcher split = SPLIT.matcher(record.header().message());
    if (split.lookingAt()) {
      return absent(record.header().missing(), split.group());
    }
    for (FlightRecord.Rank rank : record.ranks()) {
      Fault peer = transferTimedOut(rank);
      if (!peer.ranks().isEmpty()) {
        return peer;
      }
    }
    OptionalInt waiting =
        ranks()
            .filter(r -> isUnfinished(last(r)) && !last(r).isTransfer())
            .reduce((a, b) -> last(b).groupSequence() > last(a).groupSequence() ? b : a);
    if (waiting.isEmpty()) {
      return absent(record.header().missing(), "the call");
    }
    CallRecord call = last(waiting.getAsInt());
    List<Integer> late =
        ranks()
            .filter(r -> isKnown(r) && last(r).groupSequence() < call.groupSequence())
            .boxed()
            .toList();
    if (!late.isEmpty()) {
      return absent(late, call.description());
    }
    List<Integer> stuck = record.header().missing();
    if (stuck.isEmpty() || stuck.size() == record.ranks().size()) {
      return unknown();
    }
    return stuck.stream().allMatch(this::isKnown)
        ? new Fault(
            stuck,
            String.format(
                Locale.ROOT,
                "%s entered %s but made no progress in it (stopped, or without a processor)",
                names(stuck),
                call.description()))
        : new Fault(
            stuck,
            String.format(
                Locale.ROOT,
                "%s had not sent what %s waited for; the record of another host says what %s did",
                names(stuck),
                call.description(),
                stuck.size() == 1 ? "it" : "they"));
  }

  /** The rank whose part of a transfer is missing. */
  private Fault transferTimedOut(FlightRecord.Rank waiting) {
    for (CallRecord call : waiting.calls()) {
      if (call.state() == CallRecord.State.FAILED
          && call.isTransfer()
          && call.peer() >= 0
          && call.peer() < record.ranks().size()
          && record.isComplete(call.peer())
          && record.ranks().get(call.peer()).calls().stream()
              .noneMatch(their -> isPartner(their, call, waiting.rank()))) {
        return new Fault(
            List.of(call.peer()),
            String.format(
                Locale.ROOT,
                "rank %d did not enter %s of rank %d; it %s",
                call.peer(),
                call.description(),
                waiting.rank(),
                doing(call.peer())));
      }
    }
    return unknown();
  }

  private static boolean isPartner(CallRecord their, CallRecord call, int rank) {
    return their.isTransfer()
        && their.isSend() != call.isSend()
        && their.peer() == rank
        && their.sequence() == call.sequence();
  }

  private Fault absent(List<Integer> ranks, String call) {
    return ranks.isEmpty()
        ? unknown()
        : new Fault(
            ranks,
            String.format(
                Locale.ROOT,
                "%s did not enter %s; %s",
                names(ranks),
                call,
                ranks.stream()
                    .map(r -> (ranks.size() == 1 ? "it " : "rank " + r + " ") + doing(r))
                    .collect(Collectors.joining(", "))));
  }

  private Fault differed() {
    TreeSet<Long> numbers = new TreeSet<>();
    List<Map<Long, String>> collectives = new ArrayList<>();
    for (FlightRecord.Rank rank : record.ranks()) {
      Map<Long, String> byNumber =
          rank.calls().stream()
              .filter(call -> !call.isTransfer())
              .collect(
                  Collectors.toMap(
                      CallRecord::sequence, CallRecord::description, (first, last) -> last));
      collectives.add(byNumber);
      numbers.addAll(byNumber.keySet());
    }
    for (long number : numbers) {
      Map<String, List<Integer>> ranksByCall = new LinkedHashMap<>();
      ranks()
          .filter(r -> collectives.get(r).containsKey(number))
          .forEach(
              r ->
                  ranksByCall
                      .computeIfAbsent(collectives.get(r).get(number), c -> new ArrayList<>())
                      .add(r));
      if (ranksByCall.size() > 1) {
        return odd(ranksByCall);
      }
    }
    return transfersDiffered();
  }

  /** The ranks whose call is in the minority, if there is a minority. */
  private static Fault odd(Map<String, List<Integer>> ranksByCall) {
    int most = ranksByCall.values().stream().mapToInt(List::size).max().orElseThrow();
    boolean hasMajority =
        ranksByCall.values().stream().filter(ranks -> ranks.size() == most).count() == 1;
    List<Map.Entry<String, List<Integer>>> entries = new ArrayList<>(ranksByCall.entrySet());
    entries.sort(Comparator.comparingInt(entry -> entry.getValue().size()));
    String calls =
        entries.stream()
            .map(
                entry ->
                    String.format(
                        Locale.ROOT,
                        "%s %s %s",
                        names(entry.getValue()),
                        entry.getValue().size() == 1 ? "calls" : "call",
                        entry.getKey()))
            .collect(Collectors.joining(", "));
    List<Integer> odd =
        entries.stream()
            .filter(entry -> !hasMajority || entry.getValue().size() < most)
            .flatMap(entry -> entry.getValue().stream())
            .sorted()
            .toList();
    return new Fault(
        odd,
        hasMajority
            ? String.format(
                Locale.ROOT,
                "%s %s from the others: %s",
                names(odd),
                odd.size() == 1 ? "differs" : "differ",
                calls)
            : String.format(
                Locale.ROOT,
                "%s differ, and none of them is in the majority: %s",
                names(odd),
                calls));
  }

  private Fault transfersDiffered() {
    for (FlightRecord.Rank rank : record.ranks()) {
      for (CallRecord call : rank.calls()) {
        if (!call.isSend() || call.peer() < 0 || call.peer() >= record.ranks().size()) {
          continue;
        }
        for (CallRecord their : record.ranks().get(call.peer()).calls()) {
          if (isPartner(their, call, rank.rank()) && !their.payload().equals(call.payload())) {
            List<Integer> both = IntStream.of(rank.rank(), call.peer()).sorted().boxed().toList();
            return new Fault(
                both,
                String.format(
                    Locale.ROOT,
                    "rank %d calls %s, rank %d calls %s",
                    rank.rank(),
                    call.description(),
                    call.peer(),
                    their.description()));
          }
        }
      }
    }
    // The calls may differ in what their descriptions leave out, such as eps.
    String told = record.header().message();
    return told.contains("differ") ? new Fault(List.of(), told) : unknown();
  }

  private String doing(int rank) {
    CallRecord last = last(rank);
    return switch (last.state()) {
      case NONE -> "had made no call yet";
      case RUNNING, FAILED -> "was in " + last.description();
      case DONE -> "had finished " + last.description();
      case QUEUED -> "had queued " + last.description();
      case UNKNOWN -> "is on a host whose record this is not";
    };
  }

  private CallRecord last(int rank) {
    return isKnown(rank) ? record.ranks().get(rank).last() : CallRecord.UNKNOWN;
  }

  /** Whether it is known what the rank was doing. */
  private boolean isKnown(int rank) {
    return record.isComplete(rank) || !record.ranks().get(rank).calls().isEmpty();
  }

  private IntStream ranks() {
    return IntStream.range(0, record.ranks().size());
  }

  private static boolean isUnfinished(CallRecord call) {
    return call.state() == CallRecord.State.RUNNING || call.state() == CallRecord.State.FAILED;
  }

  private static String names(List<Integer> ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ")
        + ranks.stream().map(String::valueOf).collect(Collectors.joining(", "));
  }
}
