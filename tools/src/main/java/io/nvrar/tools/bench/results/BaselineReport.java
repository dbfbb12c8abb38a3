package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.results.Baseline.Kind;
import io.nvrar.tools.bench.results.Baseline.Pair;
import io.nvrar.tools.bench.results.Baseline.Series;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Formats a comparison with an earlier run: a table of ratios for each table of results. */
public final class BaselineReport {
  private BaselineReport() {}

  /** Ratios of times, now over then; below each table its medians. */
  public static void print(Baseline baseline, List<Series> compared, PrintWriter out) {
    out.println();
    out.println("Times over those of " + baseline.file() + ", of " + baseline.run().command());
    Map<Kind, List<Series>> tables = new LinkedHashMap<>();
    for (Series series : compared) {
      tables.computeIfAbsent(table(series.kind()), kind -> new ArrayList<>()).add(series);
    }
    tables.forEach(
        (kind, columns) -> {
          out.println();
          out.println(title(kind));
          TextReport.print(table(columns), out);
        });
  }

  /** All columns of a table have this in common. */
  private static Kind table(Kind kind) {
    return new Kind(
        kind.collective(),
        kind.processes(),
        kind.hosts(),
        kind.type(),
        kind.op(),
        "",
        kind.backend(),
        kind.mode(),
        "",
        "");
  }

  private static String title(Kind kind) {
    return String.format(
        Locale.ROOT,
        "%s, %s%s, %d ranks%s, %s",
        kind.collective(),
        kind.type(),
        kind.op().equals("none") ? "" : " " + kind.op(),
        kind.processes(),
        kind.hosts() == 1 ? "" : String.format(Locale.ROOT, " on %d hosts", kind.hosts()),
        kind.mode().replace('-', ' '));
  }

  private static List<List<String>> table(List<Series> columns) {
    List<List<String>> rows = new ArrayList<>();
    List<String> head = new ArrayList<>(List.of("size (B)"));
    columns.forEach(series -> head.add(series.kind().column()));
    rows.add(head);
    List<Long> sizes =
        columns.stream()
            .flatMap(series -> series.pairs().stream())
            .map(pair -> pair.now().bytes())
            .distinct()
            .sorted()
            .toList();
    for (long bytes : sizes) {
      List<String> row = new ArrayList<>(List.of(Long.toString(bytes)));
      columns.forEach(
          series ->
              row.add(
                  series.pairs().stream()
                      .filter(pair -> pair.now().bytes() == bytes)
                      .map(Pair::ratio)
                      .map(BaselineReport::number)
                      .findFirst()
                      .orElse("")));
      rows.add(row);
    }
    List<String> medians = new ArrayList<>(List.of("median"));
    columns.forEach(series -> medians.add(number(series.median())));
    rows.add(medians);
    return rows;
  }

  private static String number(double ratio) {
    return String.format(Locale.ROOT, "%.2f", ratio);
  }
}
