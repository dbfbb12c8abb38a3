package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Compares the times of a run with those of an earlier one, cell by cell. Costs of groups are left
 * out, and times of 0, of which there is no ratio.
 *
 * @param file the earlier run's
 */
public record Baseline(Path file, Run run) {

  /** What the sizes of a comparison have in common. */
  record Kind(
      String collective,
      int processes,
      int hosts,
      String type,
      String op,
      String algorithm,
      String backend,
      String mode,
      String implementation,
      String placement) {
    static Kind of(Row row) {
      return new Kind(
          row.collective(),
          row.processes(),
          row.hosts(),
          row.type(),
          row.op(),
          row.algorithm(),
          row.backend(),
          row.mode(),
          row.implementation(),
          row.placement());
    }

    boolean isOurs() {
      return Implementation.named(implementation).orElseThrow().isOurs();
    }

    String column() {
      return placement.equals(Row.IN_PLACE) ? implementation + " in place" : implementation;
    }
  }

  /** One size, now and in the earlier run. */
  record Pair(Row now, Row before) {
    double ratio() {
      return now.timeUs() / before.timeUs();
    }

    /**
     * Whether it is slower by more than a part of the earlier time, and not within what was seen in
     * either run: even the fastest batch took longer than the slowest of the earlier run.
     */
    boolean isSlower(double part) {
      return ratio() > 1 + part && now.timeMinUs() > before.timeMaxUs();
    }
  }

  /** The sizes of one kind, ascending. */
  public record Series(Kind kind, List<Pair> pairs) {
    double median() {
      return Medians.of(pairs.stream().map(Pair::ratio).toList());
    }

    /** How it is slower, as a clause; empty if it is not, or not ours. */
    Optional<String> slower(double part) {
      if (!kind.isOurs()) {
        return Optional.empty();
      }
      String name =
          String.format(
              Locale.ROOT,
              "%s, %s, %d ranks%s",
              kind.column(),
              kind.collective,
              kind.processes,
              kind.mode.equals("calls") ? "" : ", " + kind.mode);
      if (median() > 1 + part) {
        return Optional.of(String.format(Locale.ROOT, "%s, by %.2f in the median", name, median()));
      }
      List<Pair> alone = pairs.stream().filter(pair -> pair.isSlower(part)).toList();
      return alone.isEmpty()
          ? Optional.empty()
          : Optional.of(
              alone.stream()
                  .map(
                      pair ->
                          String.format(
                              Locale.ROOT, "%d B (%.2f)", pair.now().bytes(), pair.ratio()))
                  .collect(Collectors.joining(", ", name + ", at ", "")));
    }
  }

  /**
   * Reads the earlier run.
   *
   * @throws IOException if the file is not one of those of the command
   */
  public static Baseline read(Path file) throws IOException {
    return new Baseline(file, ResultFiles.read(file));
  }

  /**
   * Checks, before a measurement, which takes minutes, that it has some of what will be measured.
   *
   * @throws IOException if not
   */
  public void check(List<Settings> settings) throws IOException {
    for (Settings one : settings) {
      if (run.rows().stream().anyMatch(row -> fits(row, one))) {
        return;
      }
    }
    throw new IOException(
        String.format(
            Locale.ROOT,
            "the baseline %s has nothing of what is measured here: it is of %s",
            file,
            new Results(run.rows())
                .parts().stream().map(Results.Part::title).collect(Collectors.joining("; "))));
  }

  private static boolean fits(Row row, Settings settings) {
    return row.collective().equals(settings.name())
        && row.processes() == settings.processes()
        && row.hosts() == settings.hosts()
        && row.backend().equals(OptionNames.of(settings.backend()))
        && (settings.collective() == TimedCollective.BARRIER
            || row.type().equals(OptionNames.of(settings.type())));
  }

  /**
   * Compares what both have.
   *
   * @throws IOException if they have nothing in common
   */
  public List<Series> compare(List<Row> rows) throws IOException {
    Map<Kind, Map<Long, Row>> before = new LinkedHashMap<>();
    for (Row row : run.rows()) {
      before.computeIfAbsent(Kind.of(row), kind -> new LinkedHashMap<>()).put(row.bytes(), row);
    }
    Map<Kind, List<Pair>> pairs = new LinkedHashMap<>();
    for (Row row : rows) {
      Kind kind = Kind.of(row);
      Optional.ofNullable(before.getOrDefault(kind, Map.of()).get(row.bytes()))
          .filter(earlier -> !row.collective().equals(Row.GROUP))
          .filter(earlier -> earlier.timeUs() > 0 && row.timeUs() > 0)
          .ifPresent(
              earlier ->
                  pairs
                      .computeIfAbsent(kind, any -> new ArrayList<>())
                      .add(new Pair(row, earlier)));
    }
    if (pairs.isEmpty()) {
      throw new IOException(
          String.format(
              Locale.ROOT,
              "the baseline %s has no result at the same size, type and number of ranks as these",
              file));
    }
    return pairs.entrySet().stream()
        .map(entry -> new Series(entry.getKey(), entry.getValue()))
        .toList();
  }

  /** Which of ours are slower by more than a part, each as a clause. */
  public static List<String> slower(List<Series> all, double part) {
    return all.stream().flatMap(series -> series.slower(part).stream()).toList();
  }
}
