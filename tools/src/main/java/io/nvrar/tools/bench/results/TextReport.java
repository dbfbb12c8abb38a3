package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.setup.Implementation;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.SortedMap;
import java.util.stream.Collectors;

/** Formats the results in nccl-tests' columns, with the ratio to Open MPI at the end. */
public final class TextReport {
  private static final String COLUMNS = "%10s %10s %9s %8s %4s %9s | %s | %s | %8s";
  private static final String TIMES = "%10s %7s %7s %6s";

  /** Up to this size the cost of the call dominates, beyond it that of memory. */
  static final long SMALL_BYTES = 1024;

  /** The target ratio to Open MPI in the middle sizes, and the limit for all sizes. */
  static final double LEVEL_RATIO = 1;

  static final double WORST_RATIO = 1.5;
  static final long LEVEL_LEAST_BYTES = 1024;
  static final long LEVEL_MOST_BYTES = 1 << 20;

  /** How much longer a call may take from Java, in us. */
  static final double JAVA_MORE_US = 1;

  private TextReport() {}

  public static void print(Results results, PrintWriter out) {
    for (Part part : results.parts()) {
      if (part.onGpu()) {
        printOfGpus(results, part, out);
        continue;
      }
      out.println();
      out.println(part.title());
      out.println(
          line(
              List.of("size", "count", "type", "redop", "root", "from"),
              TIMES.formatted("out of place", "algbw", "busbw", "#wrong"),
              TIMES.formatted("in place", "algbw", "busbw", "#wrong"),
              "time /"));
      out.println(
          line(
              List.of("(B)", "(elements)", "", "", "", ""),
              TIMES.formatted("time (us)", "(GB/s)", "(GB/s)", ""),
              TIMES.formatted("time (us)", "(GB/s)", "(GB/s)", ""),
              "open-mpi"));
      for (long bytes : Results.sizes(part)) {
        for (Implementation from : Implementation.values()) {
          Results.find(part, from, bytes, Row.OUT_OF_PLACE)
              .ifPresent(row -> out.println(line(part, row, from)));
        }
      }
      summary(part).forEach(out::println);
    }
  }

  private static void printOfGpus(Results results, Part part, PrintWriter out) {
    for (GpuReport.Table table : GpuReport.tables(part)) {
      out.println();
      out.println(table.title());
      List<List<String>> rows = new ArrayList<>(List.of(table.columns()));
      rows.addAll(table.rows());
      print(rows, out);
    }
    GpuReport.summary(results, part).forEach(out::println);
  }

  /** Prints a table whose first row is its head. */
  static void print(List<List<String>> rows, PrintWriter out) {
    List<Integer> widths =
        rows.get(0).stream().map(column -> Math.max(column.length(), 8) + 2).toList();
    rows.forEach(row -> out.println(padded(row, widths)));
  }

  private static String padded(List<String> cells, List<Integer> widths) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < cells.size(); i++) {
      line.append(" ".repeat(Math.max(0, widths.get(i) - cells.get(i).length())));
      line.append(cells.get(i));
    }
    return line.toString();
  }

  private static String line(Part part, Row row, Implementation from) {
    OptionalDouble ratio = Results.ratio(part, from, Implementation.OPEN_MPI, row.bytes());
    return line(
        List.of(
            Long.toString(row.bytes()),
            Long.toString(row.count()),
            row.type(),
            row.op(),
            Integer.toString(row.root()),
            row.implementation()),
        times(row),
        Results.find(part, from, row.bytes(), Row.IN_PLACE)
            .map(TextReport::times)
            .orElse(TIMES.formatted("-", "-", "-", "-")),
        ratio.isPresent() ? String.format(Locale.ROOT, "%.2f", ratio.getAsDouble()) : "-");
  }

  private static String line(List<String> call, String outOfPlace, String inPlace, String ratio) {
    List<String> columns = new ArrayList<>(call);
    columns.addAll(List.of(outOfPlace, inPlace, ratio));
    return COLUMNS.formatted(columns.toArray()).stripTrailing();
  }

  private static String times(Row row) {
    return TIMES.formatted(
        String.format(Locale.ROOT, "%.2f", row.timeUs()),
        String.format(Locale.ROOT, "%.3f", row.algbwGbps()),
        String.format(Locale.ROOT, "%.3f", row.busbwGbps()),
        row.wrong());
  }

  /** Summarizes the table, and where it misses the targets, one sentence each. */
  static List<String> summary(Part part) {
    List<String> sentences = new ArrayList<>();
    against(part, "1 KiB to 1 MiB", LEVEL_LEAST_BYTES, LEVEL_MOST_BYTES, LEVEL_RATIO)
        .ifPresent(sentences::add);
    against(part, "all sizes", 0, Long.MAX_VALUE, WORST_RATIO).ifPresent(sentences::add);
    SortedMap<Long, Double> more = Results.javaMinusCpp(part, SMALL_BYTES);
    if (!more.isEmpty()) {
      sentences.add(
          String.format(
              Locale.ROOT,
              "From Java a call takes %.2f us more than from C++ (median of the sizes up to 1 KiB); the target, at most %.2f us, is %s.",
              Medians.of(List.copyOf(more.values())),
              JAVA_MORE_US,
              beyond(more, JAVA_MORE_US)));
    }
    return sentences;
  }

  private static Optional<String> against(
      Part part, String range, long least, long most, double limit) {
    SortedMap<Long, Double> ratios = Results.againstMpi(part, least, most);
    if (ratios.isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(
        String.format(
            Locale.ROOT,
            "C++ against Open MPI, %s: %.2f to %.2f times its time; the target, at most %.2f, is %s.",
            range,
            Collections.min(ratios.values()),
            Collections.max(ratios.values()),
            limit,
            beyond(ratios, limit)));
  }

  /**
   * Whether the values, rounded to two decimals, are within a limit, and at which sizes they are
   * not.
   */
  private static String beyond(SortedMap<Long, Double> values, double limit) {
    String sizes =
        values.entrySet().stream()
            .filter(entry -> Math.round(entry.getValue() * 100) > Math.round(limit * 100))
            .map(
                entry ->
                    String.format(Locale.ROOT, "%d B (%.2f)", entry.getKey(), entry.getValue()))
            .collect(Collectors.joining(", "));
    return sizes.isEmpty() ? "met at every size" : "missed at " + sizes;
  }
}
