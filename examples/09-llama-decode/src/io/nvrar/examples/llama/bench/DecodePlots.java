package io.nvrar.examples.llama.bench;

import io.nvrar.tools.bench.plots.Plot;
import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.function.Predicate;

/** What is drawn of a report: for each context the time of a step by batch, beside its floor. */
final class DecodePlots {
  private static final int OURS = 0x0B5FA5;
  private static final int FLOOR = 0x7F7F7F;
  private static final int WITH_NCCL = 0x4C9A2A;
  private static final int[] OTHERS = {0x8C2D19, 0x9B4FB5, 0xD4499B};

  private static final int LEAST_POINTS = 2;

  private DecodePlots() {}

  /** None of contexts that have been measured with one batch only. */
  static List<Plot> of(BenchReport report) {
    List<Plot> plots = new ArrayList<>();
    for (int context : report.results().stream().map(BenchRow::context).distinct().toList()) {
      List<BenchRow> rows =
          report.results().stream()
              .filter(row -> row.context() == context && row.problem().isEmpty())
              .sorted(Comparator.comparingInt(BenchRow::batch))
              .toList();
      List<Line> lines = new ArrayList<>();
      lines.add(line("nvrar", OURS, rows, BenchRow::isWhollyOurs));
      lines.add(line("the same with NCCL", WITH_NCCL, rows, BenchRow::isWithNccl));
      List<BenchRow> others = rows.stream().filter(row -> !row.isOurs()).toList();
      List<String> allReduces = others.stream().map(BenchRow::allReduce).distinct().toList();
      for (int i = 0; i < allReduces.size(); i++) {
        String whose = allReduces.get(i);
        lines.add(
            line(
                "PyTorch, " + whose,
                OTHERS[i % OTHERS.length],
                others,
                row -> row.allReduce().equals(whose)));
      }
      lines.add(
          new Line(
              "floor",
              FLOOR,
              rows.stream()
                  .filter(BenchRow::isWhollyOurs)
                  .map(row -> point(row, row.floorMillis(), row.floorMillis(), row.floorMillis()))
                  .toList()));
      lines.removeIf(line -> line.points().size() < LEAST_POINTS);
      if (!lines.isEmpty()) {
        plots.add(
            new Plot(
                String.format(Locale.ROOT, "decode-%d-ranks-context-%d", report.ranks(), context),
                String.format(
                    Locale.ROOT,
                    "A decode step of %s, %d ranks, context %d",
                    report.model(),
                    report.ranks(),
                    context),
                "batch",
                "ms",
                List.copyOf(lines)));
      }
    }
    return plots;
  }

  private static Line line(String name, int rgb, List<BenchRow> rows, Predicate<BenchRow> wanted) {
    return new Line(
        name,
        rgb,
        rows.stream()
            .filter(wanted)
            .map(row -> point(row, row.millis(), row.leastMillis(), row.mostMillis()))
            .toList());
  }

  private static Point point(BenchRow row, double value, double least, double most) {
    return new Point(row.batch(), value, least, most);
  }
}
