package io.nvrar.tools.bench.plots;

import io.nvrar.tools.bench.plots.Plot.Line;
import io.nvrar.tools.bench.plots.Plot.Point;
import io.nvrar.tools.bench.results.Results;
import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.results.Row;
import io.nvrar.tools.bench.setup.Implementation;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * Chooses what is drawn of results: for each table, and on GPUs each mode of it, the time, the bus
 * bandwidth, and how many times faster ours are than the fastest of their peers. On the CPU nothing
 * is drawn of calls in place.
 */
final class Plots {
  private static final int LEAST_POINTS = 2;

  private Plots() {}

  static List<Plot> of(Results results) {
    return results.parts().stream().flatMap(part -> of(part).stream()).toList();
  }

  /** The pictures of one table; none if it has fewer than two sizes. */
  static List<Plot> of(Part part) {
    List<Plot> plots = new ArrayList<>();
    for (String mode : part.rows().stream().map(Row::mode).distinct().toList()) {
      List<Row> rows =
          part.rows().stream()
              .filter(row -> row.mode().equals(mode))
              // On GPUs there is one placement, which of NCCL is the other.
              .filter(row -> part.onGpu() || row.placement().equals(Row.OUT_OF_PLACE))
              .sorted(Comparator.comparingLong(Row::bytes))
              .toList();
      String title = part.onGpu() ? part.title() + ", " + mode.replace('-', ' ') : part.title();
      add(plots, title, "time", "us", lines(rows, all -> true, Plots::time));
      add(plots, title, "bus bandwidth", "GB/s", lines(rows, all -> true, Plots::bandwidth));
      Map<Long, Row> peers = fastestPeers(rows);
      add(
          plots,
          title,
          "speed-up over " + names(peers),
          "times as fast",
          lines(
              rows.stream().filter(row -> peers.containsKey(row.bytes())).toList(),
              Implementation::isOurs,
              row -> speedUp(row, Objects.requireNonNull(peers.get(row.bytes())))));
    }
    return plots;
  }

  private static void add(
      List<Plot> plots, String title, String what, String unit, List<Line> lines) {
    if (lines.isEmpty()) {
      return;
    }
    String shortly = what.startsWith("speed-up") ? "speed-up" : what;
    String name = (title + "-" + shortly).toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "-");
    plots.add(new Plot(name, title + ": " + what, "bytes", unit, lines));
  }

  private static List<Line> lines(
      List<Row> rows, Predicate<Implementation> wanted, Function<Row, Point> value) {
    return Arrays.stream(Implementation.values())
        .filter(wanted)
        .map(
            from ->
                new Line(
                    from.toString(),
                    rgb(from),
                    rows.stream()
                        .filter(row -> row.implementation().equals(from.toString()))
                        .map(value)
                        .filter(Point::canBeShown)
                        .toList()))
        .filter(line -> line.points().size() >= LEAST_POINTS)
        .toList();
  }

  /** The colour of an implementation, the same in every picture. */
  static int rgb(Implementation of) {
    return switch (of) {
      case CPP -> 0x0B5FA5;
      case JAVA -> 0xE07B00;
      case CPP_APART -> 0x6BAED6;
      case STUDY -> 0x7F7F7F;
      case OPEN_MPI -> 0x8C2D19;
      case NCCL -> 0x4C9A2A;
      case TORCH_ONE_SHOT -> 0x9B4FB5;
      case TORCH_TWO_SHOT -> 0xD4499B;
      case TORCH_REDUCE_SCATTER -> 0x4B3FA0;
      case TORCH_LOW_CONTENTION -> 0x2AA5A0;
    };
  }

  private static Point time(Row row) {
    return new Point(row.bytes(), row.timeUs(), row.timeMinUs(), row.timeMaxUs());
  }

  private static Point bandwidth(Row row) {
    double gbUs = row.busbwGbps() * row.timeUs();
    return new Point(row.bytes(), row.busbwGbps(), gbUs / row.timeMaxUs(), gbUs / row.timeMinUs());
  }

  /** The band is that of ours; the peer's time is its median. */
  private static Point speedUp(Row ours, Row peer) {
    return new Point(
        ours.bytes(),
        peer.timeUs() / ours.timeUs(),
        peer.timeUs() / ours.timeMaxUs(),
        peer.timeUs() / ours.timeMinUs());
  }

  /** By size, the peer with the least time, of those that have one: it may be 0. */
  private static Map<Long, Row> fastestPeers(List<Row> rows) {
    Map<Long, Row> fastest = new TreeMap<>();
    for (Row row : rows) {
      if (row.timeUs() > 0 && Implementation.named(row.implementation()).orElseThrow().isPeer()) {
        fastest.merge(
            row.bytes(), row, (one, other) -> one.timeUs() <= other.timeUs() ? one : other);
      }
    }
    return fastest;
  }

  private static String names(Map<Long, Row> peers) {
    List<String> names = peers.values().stream().map(Row::implementation).distinct().toList();
    return names.size() == 1
        ? names.get(0)
        : names.stream().collect(Collectors.joining(", ", "the fastest of ", ""));
  }
}
