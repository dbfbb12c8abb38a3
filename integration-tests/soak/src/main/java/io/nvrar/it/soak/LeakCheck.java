package io.nvrar.it.soak;

import io.nvrar.it.soak.worker.ProcessResources;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Compares the resources of every worker between rounds, when it is in no group, with those after
 * its first rounds. Resources that end shortly after a group's close are given that time.
 */
final class LeakCheck {
  private static final int ANSWER_SECONDS = 30;
  private static final int TRIES = 40;
  private static final long TRY_MILLIS = 250;

  /** The number of files that the JVM may open late, on first use, such as its random source. */
  private static final int LATE_FILES = 4;

  private static final long RSS_SLACK_BYTES = 8L << 20;
  private static final double RSS_SLACK = 0.05;
  private static final long HEAP_SLACK_BYTES = 2L << 20;

  /** Fewer samples than this say nothing about a slope. */
  private static final int TREND_SAMPLES = 12;

  /** By process, in the order of the first check. */
  private final Map<Object, History> histories = new LinkedHashMap<>();

  /**
   * What a process held between rounds.
   *
   * @param pid for people only: a later process may get the pid of one that has ended
   */
  private record History(long pid, List<ProcessResources> samples) {}

  /** Returns the leaks, one sentence per process. */
  List<String> check(WorkerPool pool) throws InterruptedException {
    List<String> complaints = new ArrayList<>();
    for (WorkerProcess worker : pool.workers()) {
      String complaint = check(worker);
      if (complaint != null) {
        complaints.add(complaint);
      }
    }
    return complaints;
  }

  private @Nullable String check(WorkerProcess worker) throws InterruptedException {
    String problem = "";
    for (int i = 0; i < TRIES; i++) {
      ProcessResources now;
      try {
        now = worker.holdings().get(ANSWER_SECONDS, TimeUnit.SECONDS);
      } catch (ExecutionException | TimeoutException e) {
        return String.format(
            Locale.ROOT, "worker %d does not say what it holds: %s", worker.pid(), e);
      }
      problem = check(worker, worker.pid(), now);
      if (problem.isEmpty()) {
        return null;
      }
      Thread.sleep(TRY_MILLIS);
    }
    return String.format(Locale.ROOT, "worker %d leaks: %s", worker.pid(), problem);
  }

  /** Returns what a process leaks, or remembers what it holds and returns an empty string. */
  String check(Object process, long pid, ProcessResources now) {
    List<ProcessResources> earlier =
        histories.computeIfAbsent(process, key -> new History(pid, new ArrayList<>())).samples();
    String problem = problem(now, earlier.isEmpty() ? now : earlier.get(0));
    if (problem.isEmpty()) {
      earlier.add(now);
    }
    return problem;
  }

  static String problem(ProcessResources now, ProcessResources first) {
    List<String> problems = new ArrayList<>();
    if (now.segments() > 0) {
      problems.add(now.segments() + " mappings of segments of groups that have ended");
    }
    List<String> ours = now.threads().stream().filter(name -> name.startsWith("nvrar-")).toList();
    if (!ours.isEmpty()) {
      problems.add("threads of groups that have ended: " + ours);
    }
    if (now.threads().size() > first.threads().size()) {
      problems.add(
          String.format(
              Locale.ROOT,
              "threads %s, after its first rounds it had %s",
              now.threads(),
              first.threads()));
    }
    if (now.tasks().size() > first.tasks().size()) {
      problems.add(
          String.format(
              Locale.ROOT,
              "%d threads of all kinds, after its first rounds it had %d: %s",
              now.tasks().size(),
              first.tasks().size(),
              now.tasks()));
    }
    if (now.descriptors().size() > first.descriptors().size() + LATE_FILES) {
      problems.add(
          String.format(
              Locale.ROOT,
              "%d open files, after its first rounds it had %d",
              now.descriptors().size(),
              first.descriptors().size()));
    }
    Map<String, Integer> before = count(first.descriptors());
    count(now.descriptors())
        .forEach(
            (what, number) -> {
              int allowed = before.getOrDefault(what, what.startsWith("/") ? 1 : 0);
              if (what.startsWith("/memfd:nvrar") || number > allowed) {
                problems.add(
                    String.format(
                        Locale.ROOT,
                        "%d descriptors of %s, after its first rounds it had %d",
                        number,
                        what,
                        before.getOrDefault(what, 0)));
              }
            });
    return String.join("; ", problems);
  }

  private static Map<String, Integer> count(List<String> descriptors) {
    Map<String, Integer> counts = new HashMap<>();
    descriptors.forEach(what -> counts.merge(what, 1, Integer::sum));
    return counts;
  }

  /** Returns which processes grew in the last third of the run over the second. */
  List<String> growth() {
    List<String> complaints = new ArrayList<>();
    histories
        .values()
        .forEach(history -> complaints.addAll(growth(history.pid(), history.samples())));
    return complaints;
  }

  static List<String> growth(long pid, List<ProcessResources> samples) {
    if (samples.size() < TREND_SAMPLES) {
      return List.of();
    }
    List<String> complaints = new ArrayList<>();
    int third = samples.size() / 3;
    List<ProcessResources> middle = samples.subList(third, 2 * third);
    List<ProcessResources> last = samples.subList(2 * third, samples.size());
    long rss = median(middle, ProcessResources::rssBytes);
    long rssLast = median(last, ProcessResources::rssBytes);
    if (rssLast > rss + RSS_SLACK_BYTES + RSS_SLACK * rss) {
      complaints.add(
          String.format(
              Locale.ROOT,
              "worker %d grew from %d to %d KiB of resident memory",
              pid,
              rss >> 10,
              rssLast >> 10));
    }
    long heap = median(middle, ProcessResources::heapBytes);
    long heapLast = median(last, ProcessResources::heapBytes);
    if (heapLast > heap + HEAP_SLACK_BYTES) {
      complaints.add(
          String.format(
              Locale.ROOT,
              "worker %d grew from %d to %d KiB of Java heap",
              pid,
              heap >> 10,
              heapLast >> 10));
    }
    return complaints;
  }

  private static long median(List<ProcessResources> samples, ToLongFunction<ProcessResources> of) {
    return samples.stream().mapToLong(of).sorted().toArray()[samples.size() / 2];
  }

  /** One line for each of the processes that lived longest. */
  List<String> summary(int lines) {
    return histories.values().stream()
        .filter(history -> !history.samples().isEmpty())
        .sorted(Comparator.comparingInt(history -> -history.samples().size()))
        .limit(lines)
        .map(
            history -> {
              int checks = history.samples().size();
              ProcessResources first = history.samples().get(0);
              ProcessResources last = history.samples().get(checks - 1);
              return String.format(
                  Locale.ROOT,
                  "pid %d, %d checks: RSS %.1f -> %.1f MiB, heap %.1f -> %.1f MiB, descriptors %d -> %d, threads %d -> %d",
                  history.pid(),
                  checks,
                  first.rssBytes() / 0x1p20,
                  last.rssBytes() / 0x1p20,
                  first.heapBytes() / 0x1p20,
                  last.heapBytes() / 0x1p20,
                  first.descriptors().size(),
                  last.descriptors().size(),
                  first.tasks().size(),
                  last.tasks().size());
            })
        .toList();
  }
}
