package io.nvrar.tools.top;

import io.nvrar.internal.flight.HostWatch.RankSample;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A group at the time of a look.
 *
 * @param group its name
 * @param id differs between groups of the same name
 * @param worldSize the number of ranks
 * @param backend its backend
 * @param state {@code ok}, {@code waiting} (ranks have been in a call for a second or more), {@code
 *     failed} or {@code incomplete} (ranks are gone or not seen)
 * @param problem what is known of that; "" if the state is ok
 * @param ranks all of its ranks
 */
record GroupSample(
    String group,
    String id,
    int worldSize,
    String backend,
    String state,
    String problem,
    List<RankSample> ranks) {
  private static final double LONG_SECONDS = 1;
  private static final int MOST_RANKS = 512;

  /** With copies of its lists. */
  GroupSample {
    ranks = List.copyOf(ranks);
  }

  /** The groups of some ranks; without those of which no process is left. */
  static List<GroupSample> of(List<RankSample> seen) {
    Map<String, List<RankSample>> byGroup = new LinkedHashMap<>();
    for (RankSample rank : seen) {
      byGroup.computeIfAbsent(rank.group() + " " + rank.id(), key -> new ArrayList<>()).add(rank);
    }
    return byGroup.values().stream()
        .filter(ranks -> ranks.stream().anyMatch(rank -> !rank.state().equals("gone")))
        .map(GroupSample::ofGroup)
        .toList();
  }

  private static GroupSample ofGroup(List<RankSample> seen) {
    RankSample first = seen.get(0);
    int worldSize = Math.min(first.worldSize(), MOST_RANKS);
    List<RankSample> ranks =
        IntStream.range(0, worldSize)
            .mapToObj(
                r ->
                    seen.stream()
                        .filter(rank -> rank.rank() == r)
                        .findFirst()
                        .orElseGet(() -> unseen(first, r)))
            .toList();
    String problem = failure(ranks);
    String state = "failed";
    if (problem.isEmpty()) {
      problem = absent(ranks);
      state = "incomplete";
    }
    if (problem.isEmpty()) {
      problem = waits(ranks);
      state = problem.isEmpty() ? "ok" : "waiting";
    }
    return new GroupSample(
        first.group(), first.id(), first.worldSize(), first.backend(), state, problem, ranks);
  }

  private static RankSample unseen(RankSample other, int rank) {
    return new RankSample(
        other.group(),
        other.id(),
        other.worldSize(),
        other.backend(),
        rank,
        "",
        0,
        "unseen",
        "",
        0,
        0,
        0,
        0,
        0,
        "it has closed, or is where this command does not look");
  }

  /** The longest reason that a rank gives: some know only that the group has failed. */
  private static String failure(List<RankSample> ranks) {
    return ranks.stream()
        .filter(rank -> rank.state().equals("failed"))
        .map(RankSample::problem)
        .max((a, b) -> Integer.compare(a.length(), b.length()))
        .orElse("");
  }

  private static String absent(List<RankSample> ranks) {
    return ranks.stream()
        .filter(rank -> rank.state().equals("gone") || rank.state().equals("unseen"))
        .map(
            rank ->
                String.format(
                    Locale.ROOT, "rank %d is %s: %s", rank.rank(), rank.state(), rank.problem()))
        .collect(Collectors.joining("; "));
  }

  private static String waits(List<RankSample> ranks) {
    List<RankSample> waiting =
        ranks.stream()
            .filter(rank -> rank.state().equals("running") && rank.seconds() >= LONG_SECONDS)
            .toList();
    if (waiting.isEmpty()) {
      return "";
    }
    RankSample longest =
        waiting.stream().max((a, b) -> Double.compare(a.seconds(), b.seconds())).orElseThrow();
    List<RankSample> others =
        ranks.stream()
            .filter(rank -> waiting.stream().noneMatch(w -> w.rank() == rank.rank()))
            .toList();
    return String.format(
        Locale.ROOT,
        "%s in %s for %.1f s%s",
        names(waiting),
        longest.call(),
        longest.seconds(),
        others.isEmpty() ? "" : ", without " + names(others));
  }

  private static String names(List<RankSample> ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ")
        + ranks.stream().map(rank -> String.valueOf(rank.rank())).collect(Collectors.joining(", "));
  }
}
