package io.nvrar.it.soak;

import io.nvrar.LinkSecurity;
import io.nvrar.it.soak.call.Collective;
import io.nvrar.it.soak.call.Tally;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.Outcome;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** The statistics and findings of the run so far. */
final class Report {
  private static final int LONGEST_LIVED = 4;

  /** After this many rounds of one fault, at least one must have come in time. */
  private static final int ONE_IS_IN_TIME = 20;

  private final Tally tally = new Tally();
  private final Map<Fault.Kind, FaultCount> faults = new EnumMap<>(Fault.Kind.class);
  private final Map<Integer, Integer> worlds = new TreeMap<>();
  private int linkedGroups;
  private int encryptedGroups;
  private int gpuGroups;
  private long linkedCalls;
  private final List<String> complaints = new ArrayList<>();
  private final List<String> explanation = new ArrayList<>();
  private int rounds;
  private int groups;
  private long wrongResults;
  private int leaks;

  private static final class FaultCount {
    private int drawn;
    private int happened;
    private int failed;
    private double slowestSeconds;
    private final Map<String, Integer> outcomes = new TreeMap<>();
  }

  void verified(GroupPlan group, Tally more) {
    tally.add(more);
    linkedCalls += group.isLinked() ? more.calls() : 0;
  }

  void ran(Round round, boolean faultHappened) {
    rounds++;
    groups += round.groups().size();
    round.groups().forEach(this::count);
    FaultCount count = count(round.fault());
    count.drawn++;
    count.happened += faultHappened ? 1 : 0;
  }

  void ended(Fault fault, Outcome outcome, @Nullable Long faultNanos) {
    FaultCount count = count(fault);
    boolean threw = outcome.end() == Outcome.End.FAILED;
    count.outcomes.merge(
        threw ? outcome.exception() : outcome.end().name().toLowerCase(Locale.ROOT),
        1,
        Integer::sum);
    if (threw && faultNanos != null) {
      count.failed++;
      count.slowestSeconds = Math.max(count.slowestSeconds, (outcome.atNanos() - faultNanos) / 1e9);
    }
    wrongResults += outcome.end() == Outcome.End.WRONG_RESULT ? 1 : 0;
  }

  private void count(GroupPlan group) {
    worlds.merge(group.worldSize(), 1, Integer::sum);
    if (group.isLinked()) {
      linkedGroups++;
      gpuGroups += group.isOnGpus() ? 1 : 0;
      encryptedGroups += group.config().links().security() == LinkSecurity.ENCRYPTED ? 1 : 0;
    }
  }

  private FaultCount count(Fault fault) {
    return faults.computeIfAbsent(fault.kind(), kind -> new FaultCount());
  }

  void complain(Round round, List<String> sentences) {
    sentences.forEach(sentence -> complaints.add("round " + round.number() + ": " + sentence));
  }

  /** Adds lines that help to understand the findings. */
  void explain(List<String> lines) {
    explanation.addAll(lines);
  }

  void leak(List<String> sentences) {
    leaks += sentences.size();
    complaints.addAll(sentences);
  }

  /**
   * Checks all rounds together: a fault that never made any rank fail was not injected correctly.
   */
  void judgeEffects() {
    faults.forEach(
        (kind, count) -> {
          if (Verdict.MAY_COME_TOO_LATE.contains(kind)
              && count.happened >= ONE_IS_IN_TIME
              && count.failed == 0) {
            complaints.add(
                String.format(
                    Locale.ROOT,
                    "%s happened in %d rounds, and no rank of any of them failed",
                    kind,
                    count.happened));
          }
        });
  }

  List<String> complaints() {
    return List.copyOf(complaints);
  }

  int rounds() {
    return rounds;
  }

  boolean isClean() {
    return complaints.isEmpty();
  }

  String progress(long seconds, int nextRound) {
    int happened = faults.values().stream().mapToInt(count -> count.happened).sum();
    return String.format(
        Locale.ROOT,
        "%5d s  round %d  %d groups  %d calls  %.1f MiB  %d faults  %d wrong results  %d leaks",
        seconds,
        nextRound,
        groups,
        tally.calls(),
        tally.bytes() / 0x1p20,
        happened,
        wrongResults,
        leaks);
  }

  /** The table at the end. */
  List<String> summary(LeakCheck leakCheck) {
    List<String> lines = new ArrayList<>();
    lines.addAll(explanation);
    lines.add("calls verified by each rank, by collective");
    for (Collective collective : Collective.values()) {
      lines.add(String.format(Locale.ROOT, "  %-16s %10d", collective, tally.calls(collective)));
    }
    lines.add(
        String.format(
            Locale.ROOT, "  %-16s %10d  %.1f MiB", "all", tally.calls(), tally.bytes() / 0x1p20));
    lines.add("groups by world size: " + worlds);
    lines.add(
        String.format(
            Locale.ROOT,
            "groups on several hosts: %d, of them with encrypted links %d, on GPUs %d; calls in them: %d",
            linkedGroups,
            encryptedGroups,
            gpuGroups,
            linkedCalls));
    lines.add("rounds by fault: drawn, happened, slowest exception after it, how ranks ended");
    faults.forEach(
        (kind, count) ->
            lines.add(
                String.format(
                    Locale.ROOT,
                    "  %-16s %5d %5d %7.2f s  %s",
                    kind,
                    count.drawn,
                    count.happened,
                    count.slowestSeconds,
                    count.outcomes)));
    lines.add("memory of the longest-lived of the processes, first and last of its checks");
    leakCheck.summary(LONGEST_LIVED).forEach(line -> lines.add("  " + line));
    lines.add(
        String.format(
            Locale.ROOT,
            "%d rounds, %d groups, %d calls: %d wrong results, %d leaks, %d complaints in all",
            rounds,
            groups,
            tally.calls(),
            wrongResults,
            leaks,
            complaints.size()));
    return lines;
  }
}
