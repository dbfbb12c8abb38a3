package io.nvrar.tools.bench.results;

import io.nvrar.Backend;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.SortedMap;
import java.util.TreeMap;

/** The rows of a campaign, with comparisons between them. */
public record Results(List<Row> rows) {
  /** The rows of one table of the report. */
  public record Part(String collective, int processes, List<Row> rows) {
    public String title() {
      Row any = rows.get(0);
      return String.format(
          Locale.ROOT,
          "%s, %s%s, %d %s%s",
          collective,
          any.type(),
          any.op().equals("none") ? "" : " " + any.op(),
          processes,
          onGpu() ? "ranks" : processes == 1 ? "process" : "processes",
          any.hosts() == 1 ? "" : String.format(Locale.ROOT, " on %d hosts", any.hosts()));
    }

    public boolean onGpu() {
      return rows.get(0).backend().equals(OptionNames.of(Backend.CUDA));
    }
  }

  /** The rows with the costs of groups. */
  List<Row> groups() {
    return rows.stream().filter(row -> row.collective().equals(Row.GROUP)).toList();
  }

  public List<Part> parts() {
    return rows.stream()
        .filter(row -> !row.collective().equals(Row.GROUP))
        .map(row -> new Part(row.collective(), row.processes(), List.of()))
        .distinct()
        .map(
            part ->
                new Part(
                    part.collective,
                    part.processes,
                    rows.stream()
                        .filter(row -> row.collective().equals(part.collective))
                        .filter(row -> row.processes() == part.processes)
                        .toList()))
        .toList();
  }

  public long wrong() {
    return rows.stream().mapToLong(Row::wrong).sum();
  }

  /** The sizes of a part, ascending. */
  public static List<Long> sizes(Part part) {
    return part.rows.stream().map(Row::bytes).distinct().sorted().toList();
  }

  static Optional<Row> find(Part part, Implementation from, long bytes, String placement) {
    return part.rows.stream()
        .filter(row -> row.implementation().equals(from.toString()))
        .filter(row -> row.bytes() == bytes && row.placement().equals(placement))
        .findFirst();
  }

  static Optional<Row> find(Part part, Implementation from, long bytes, Mode mode) {
    return part.rows.stream()
        .filter(row -> row.implementation().equals(from.toString()))
        .filter(row -> row.bytes() == bytes && row.mode().equals(OptionNames.of(mode)))
        .findFirst();
  }

  /** The ratio of two implementations' times, out of place; empty if there is none. */
  static OptionalDouble ratio(Part part, Implementation from, Implementation to, long bytes) {
    return ratio(
        find(part, from, bytes, Row.OUT_OF_PLACE), find(part, to, bytes, Row.OUT_OF_PLACE));
  }

  /**
   * The ratio of two times; empty if one was not measured, or is 0, as a call's may be after the
   * time of the computation is subtracted.
   */
  static OptionalDouble ratio(Optional<Row> over, Optional<Row> under) {
    return over.isPresent()
            && under.isPresent()
            && over.get().timeUs() > 0
            && under.get().timeUs() > 0
        ? OptionalDouble.of(over.get().timeUs() / under.get().timeUs())
        : OptionalDouble.empty();
  }

  /**
   * The ratio of C++ to Open MPI by size, for the sizes from least to most at which there is a
   * ratio.
   */
  static SortedMap<Long, Double> againstMpi(Part part, long least, long most) {
    SortedMap<Long, Double> ratios = new TreeMap<>();
    for (long bytes : sizes(part)) {
      OptionalDouble ratio = ratio(part, Implementation.CPP, Implementation.OPEN_MPI, bytes);
      if (bytes >= least && bytes <= most && ratio.isPresent()) {
        ratios.put(bytes, ratio.getAsDouble());
      }
    }
    return ratios;
  }

  /**
   * The additional time of a call from Java compared with C++, in us, by size, for the sizes up to
   * most.
   */
  static SortedMap<Long, Double> javaMinusCpp(Part part, long most) {
    SortedMap<Long, Double> differences = new TreeMap<>();
    for (long bytes : sizes(part)) {
      Optional<Row> java = find(part, Implementation.JAVA, bytes, Row.OUT_OF_PLACE);
      Optional<Row> cpp = find(part, Implementation.CPP, bytes, Row.OUT_OF_PLACE);
      if (bytes <= most && java.isPresent() && cpp.isPresent()) {
        differences.put(bytes, java.get().timeUs() - cpp.get().timeUs());
      }
    }
    return differences;
  }
}
