package io.nvrar.tools.tune;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Finds the fastest candidate of each size. By successive halving: a round measures all candidates
 * that are left, and the next one, with three times the batches, the fastest third of them and the
 * fastest of those that fix nothing. Or all of them once, with as many batches as the last round.
 *
 * <p>A round goes through all sizes before the next candidate, the simple ones first, and takes at
 * most half of the time that is left, so that whenever the time ends, each size has what can be
 * compared.
 */
final class Tuner {
  /** A more complicated candidate must be faster by more than this part: times differ so much. */
  static final double NOISE = 0.02;

  static final int FIRST_REPEATS = 3;
  static final int LAST_REPEATS = 27;
  private static final int KEPT = 3;
  private static final int FEWEST = 3;

  /** Hears how far it is. */
  interface Listener {
    /** A point was measured; {@code planned} is the number of all that are planned now. */
    void measured(Point point, Timing timing, int done, int planned);
  }

  /**
   * What is known of a size.
   *
   * @param ranking of the last round that measured this size, the fastest first, without wrong ones
   * @param winner the fastest, or a simpler one that is not slower by more than {@link #NOISE}
   * @param wrong candidates with wrong results
   */
  record Found(long bytes, List<Measured> ranking, Measured winner, List<Measured> wrong) {}

  /** A candidate with its last timing. */
  record Measured(Candidate candidate, int repeats, Timing timing) {}

  private final Measurer measurer;
  private final LongSupplier nanoTime;
  private final long end;
  private final Listener listener;
  private final Map<Long, List<Candidate>> left = new TreeMap<>();
  private final Map<Long, List<Measured>> known = new TreeMap<>();
  private final Map<Long, List<Measured>> wrong = new TreeMap<>();
  private int done;
  private int planned;
  private boolean complete = true;

  /**
   * Does not begin.
   *
   * @param nanoTime the clock of the budget
   * @param budgetNanos after which no point is begun, except the first of each size
   */
  Tuner(Measurer measurer, LongSupplier nanoTime, long budgetNanos, Listener listener) {
    this.measurer = measurer;
    this.nanoTime = nanoTime;
    this.end = nanoTime.getAsLong() + budgetNanos;
    this.listener = listener;
  }

  /**
   * Measures.
   *
   * @return what was found for each size, in the order of the sizes
   * @throws IOException if measuring fails, or a size has no candidate with right results
   */
  List<Found> run(Map<Long, List<Candidate>> candidates, boolean full) throws IOException {
    left.putAll(candidates);
    if (full) {
      round(LAST_REPEATS, 1);
    } else {
      for (int repeats = FIRST_REPEATS; repeats <= LAST_REPEATS; repeats *= KEPT) {
        round(repeats, repeats == LAST_REPEATS ? 1 : 2);
        left.replaceAll((bytes, before) -> fastest(known.getOrDefault(bytes, List.of())));
      }
    }
    List<Found> found = new ArrayList<>();
    for (long bytes : candidates.keySet()) {
      found.add(found(bytes, found.isEmpty() ? null : found.get(found.size() - 1).winner()));
    }
    return found;
  }

  /** Whether there was time for all that was planned. */
  boolean isComplete() {
    return complete;
  }

  int points() {
    return done;
  }

  private void round(int repeats, int share) throws IOException {
    planned = planned(repeats, share == 1);
    long roundEnd = nanoTime.getAsLong() + (end - nanoTime.getAsLong()) / share;
    Map<Long, List<Measured>> results = new LinkedHashMap<>();
    int most = left.values().stream().mapToInt(List::size).max().orElse(0);
    for (int i = 0; i < most; i++) {
      for (Map.Entry<Long, List<Candidate>> size : left.entrySet()) {
        if (i >= size.getValue().size()) {
          continue;
        }
        boolean first = i == 0 && !known.containsKey(size.getKey());
        if (!first && nanoTime.getAsLong() - roundEnd >= 0) {
          complete = false;
          continue;
        }
        measure(new Point(size.getKey(), size.getValue().get(i), repeats), results);
      }
    }
    results.forEach(this::keep);
  }

  private void measure(Point point, Map<Long, List<Measured>> results) throws IOException {
    Timing timing = measurer.measure(point);
    done++;
    Measured measured = new Measured(point.candidate(), point.repeats(), timing);
    (timing.wrong() == 0 ? results : wrong)
        .computeIfAbsent(point.bytes(), bytes -> new ArrayList<>())
        .add(measured);
    listener.measured(point, timing, done, Math.max(planned, done));
  }

  /** All points, if no round is cut short. */
  private int planned(int repeats, boolean full) {
    int planned = 0;
    for (List<Candidate> of : left.values()) {
      int count = of.size();
      for (int later = repeats; later <= LAST_REPEATS && count > 0; later *= KEPT) {
        planned += count;
        count = full ? 0 : kept(count) + 1;
      }
    }
    return done + planned;
  }

  /** A round that was cut short may have measured one candidate only, which is no comparison. */
  private void keep(long bytes, List<Measured> results) {
    results.sort(Comparator.comparingDouble(measured -> measured.timing().us()));
    if (results.size() > 1
        || !known.containsKey(bytes)
        || left.getOrDefault(bytes, List.of()).size() <= 1) {
      known.put(bytes, results);
    }
  }

  private static int kept(int count) {
    return Math.min(count, Math.max((count + KEPT - 1) / KEPT, FEWEST));
  }

  private static List<Candidate> fastest(List<Measured> ranking) {
    Set<Candidate> kept = new LinkedHashSet<>();
    // First, so that a round that is cut short has it to compare with.
    ranking.stream()
        .map(Measured::candidate)
        .filter(candidate -> candidate.complexity() == 0)
        .findFirst()
        .ifPresent(kept::add);
    ranking.stream().limit(kept(ranking.size())).forEach(each -> kept.add(each.candidate()));
    return List.copyOf(kept);
  }

  /** Among equally simple candidates, the previous size's winner gives fewer rules. */
  private Found found(long bytes, @Nullable Measured before) throws IOException {
    List<Measured> wrongOnes = wrong.getOrDefault(bytes, List.of());
    List<Measured> ranking =
        known.getOrDefault(bytes, List.of()).stream()
            .filter(
                each ->
                    wrongOnes.stream().noneMatch(bad -> bad.candidate().equals(each.candidate())))
            .toList();
    if (ranking.isEmpty()) {
      throw new IOException(
          String.format(Locale.ROOT, "every result of %d bytes was wrong", bytes));
    }
    double good = ranking.get(0).timing().us() * (1 + NOISE);
    Measured winner =
        ranking.stream()
            .filter(each -> each.timing().us() <= good)
            .min(
                Comparator.<Measured>comparingInt(each -> each.candidate().complexity())
                    .thenComparing(
                        each -> before == null || !each.candidate().equals(before.candidate())))
            .orElseThrow();
    return new Found(bytes, ranking, winner, wrongOnes);
  }
}
