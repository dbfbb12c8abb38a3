package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.DoubleBinaryOperator;
import java.util.stream.Collectors;

/**
 * Formats the results on GPUs: a table for each mode, with a row per size and a column per
 * implementation.
 */
final class GpuReport {
  /** How far our kernels may be behind the study's: the larger of this time and the percentage. */
  static final double BEHIND_US = 0.4;

  static final double BEHIND_PERCENT = 10;

  /** How much more a call may take from Java than from C++. */
  static final double JAVA_GRAPH_PERCENT = 3;

  static final double JAVA_EAGER_US = 2.5;

  private static final double BYTES_PER_MIB = 1 << 20;
  private static final double US_PER_SECOND = 1e6;

  private GpuReport() {}

  /** A table of texts, with the size in the first column. */
  record Table(String title, List<String> columns, List<List<String>> rows) {}

  static List<Table> tables(Part part) {
    List<Table> tables = new ArrayList<>();
    for (Mode mode : Mode.OF_GPUS) {
      List<Implementation> measured =
          Arrays.stream(Implementation.values())
              .filter(
                  from ->
                      Results.sizes(part).stream()
                          .anyMatch(bytes -> Results.find(part, from, bytes, mode).isPresent()))
              .toList();
      if (!measured.isEmpty()) {
        tables.add(table(part, mode, measured));
      }
    }
    return tables;
  }

  private static Table table(Part part, Mode mode, List<Implementation> measured) {
    List<String> columns = new ArrayList<>(List.of("size (B)"));
    measured.forEach(from -> columns.add(from + " us"));
    columns.addAll(List.of("c++ algbw GB/s", "c++ busbw GB/s", "#wrong"));
    List<List<String>> rows = new ArrayList<>();
    for (long bytes : Results.sizes(part)) {
      List<String> row = new ArrayList<>(List.of(Long.toString(bytes)));
      long wrong = 0;
      for (Implementation from : measured) {
        Optional<Row> cell = Results.find(part, from, bytes, mode);
        row.add(cell.map(one -> number(one.timeUs())).orElse(""));
        wrong += cell.map(Row::wrong).orElse(0L);
      }
      Optional<Row> cpp = Results.find(part, Implementation.CPP, bytes, mode);
      row.add(cpp.map(one -> number(one.algbwGbps())).orElse(""));
      row.add(cpp.map(one -> number(one.busbwGbps())).orElse(""));
      row.add(Long.toString(wrong));
      rows.add(row);
    }
    return new Table(
        String.format(Locale.ROOT, "%s, %s", part.title(), OptionNames.of(mode).replace('-', ' ')),
        columns,
        rows);
  }

  /** Summarizes the tables of a part, and where they miss the targets, one sentence each. */
  static List<String> summary(Results results, Part part) {
    List<String> sentences = new ArrayList<>();
    for (Mode mode : List.of(Mode.GRAPH, Mode.GRAPH_COMPUTE)) {
      behindTheStudy(part, mode).ifPresent(sentences::add);
    }
    againstApart(part).ifPresent(sentences::add);
    javaInAGraph(part).ifPresent(sentences::add);
    javaEager(part).ifPresent(sentences::add);
    againstNccl(part).ifPresent(sentences::add);
    for (Row row : results.groups()) {
      if (row.processes() == part.processes()) {
        sentences.add(
            format(
                "A group of %d from %s is made in %.2f s and takes %.1f MiB of a GPU's memory.",
                row.processes(),
                row.implementation(),
                row.timeUs() / US_PER_SECOND,
                row.bytes() / BYTES_PER_MIB));
      }
    }
    return sentences;
  }

  private static Optional<String> behindTheStudy(Part part, Mode mode) {
    SortedMap<Long, Double> behind = new TreeMap<>();
    SortedMap<Long, Double> beyond = new TreeMap<>();
    for (long bytes : Results.sizes(part)) {
      Optional<Row> ours = Results.find(part, Implementation.CPP, bytes, mode);
      Optional<Row> study = Results.find(part, Implementation.STUDY, bytes, mode);
      if (ours.isPresent() && study.isPresent()) {
        double us = ours.get().timeUs() - study.get().timeUs();
        behind.put(bytes, us);
        if (us > Math.max(BEHIND_US, study.get().timeUs() * BEHIND_PERCENT / 100)) {
          beyond.put(bytes, us);
        }
      }
    }
    return sentence(
        behind,
        beyond,
        "C++ against the study's kernels, "
            + OptionNames.of(mode)
            + ": %.2f to %.2f us behind; the target, at most 0.40 us or 10 %%, is %s.");
  }

  private static Optional<String> againstApart(Part part) {
    SortedMap<Long, Double> saved =
        compared(
            part,
            Mode.GRAPH,
            Implementation.CPP,
            Implementation.CPP_APART,
            (ours, apart) -> apart - ours);
    SortedMap<Long, Double> lost = new TreeMap<>(saved);
    lost.values().removeIf(us -> us >= 0);
    return sentence(
        saved,
        lost,
        "A fused all-reduce in a graph saves %.2f to %.2f us of one with a kernel behind it; the target, at least 0.00 us, is %s.");
  }

  private static Optional<String> javaInAGraph(Part part) {
    SortedMap<Long, Double> percents =
        ratios(part, Mode.GRAPH, Implementation.JAVA, Implementation.CPP);
    percents.replaceAll((bytes, ratio) -> (ratio - 1) * 100);
    return sentence(
        percents,
        above(percents, JAVA_GRAPH_PERCENT),
        "From Java a call in a graph takes %.1f to %.1f %% more than from C++; the target, at most 3 %%, is %s.");
  }

  private static Optional<String> javaEager(Part part) {
    SortedMap<Long, Double> more =
        compared(
            part, Mode.EAGER, Implementation.JAVA, Implementation.CPP, (java, cpp) -> java - cpp);
    return sentence(
        more,
        above(more, JAVA_EAGER_US),
        "From Java an eager call takes %.2f to %.2f us more than from C++; the target, at most 2.50 us, is %s.");
  }

  private static Optional<String> againstNccl(Part part) {
    SortedMap<Long, Double> ratios =
        ratios(part, Mode.GRAPH, Implementation.CPP, Implementation.NCCL);
    return sentence(
        ratios,
        above(ratios, 1),
        "C++ against NCCL in a graph: %.2f to %.2f times its time; the target, at most 1.00, is %s.");
  }

  /**
   * Compares the times of two implementations, by size, for the sizes at which both were measured.
   */
  private static SortedMap<Long, Double> compared(
      Part part,
      Mode mode,
      Implementation one,
      Implementation other,
      DoubleBinaryOperator comparison) {
    SortedMap<Long, Double> compared = new TreeMap<>();
    for (long bytes : Results.sizes(part)) {
      Optional<Row> ofOne = Results.find(part, one, bytes, mode);
      Optional<Row> ofOther = Results.find(part, other, bytes, mode);
      if (ofOne.isPresent() && ofOther.isPresent()) {
        compared.put(bytes, comparison.applyAsDouble(ofOne.get().timeUs(), ofOther.get().timeUs()));
      }
    }
    return compared;
  }

  /** The ratios of the times of two implementations, by size, for the sizes that have one. */
  private static SortedMap<Long, Double> ratios(
      Part part, Mode mode, Implementation one, Implementation other) {
    SortedMap<Long, Double> ratios = new TreeMap<>();
    for (long bytes : Results.sizes(part)) {
      Results.ratio(Results.find(part, one, bytes, mode), Results.find(part, other, bytes, mode))
          .ifPresent(ratio -> ratios.put(bytes, ratio));
    }
    return ratios;
  }

  private static SortedMap<Long, Double> above(SortedMap<Long, Double> values, double limit) {
    SortedMap<Long, Double> above = new TreeMap<>(values);
    above.values().removeIf(value -> value <= limit);
    return above;
  }

  /** Empty if nothing was compared. */
  private static Optional<String> sentence(
      SortedMap<Long, Double> values, SortedMap<Long, Double> beyond, String format) {
    if (values.isEmpty()) {
      return Optional.empty();
    }
    String where =
        beyond.isEmpty()
            ? "met at every size"
            : beyond.entrySet().stream()
                .map(GpuReport::place)
                .collect(Collectors.joining(", ", "missed at ", ""));
    return Optional.of(
        format(format, Collections.min(values.values()), Collections.max(values.values()), where));
  }

  private static String place(Map.Entry<Long, Double> entry) {
    return format("%d B (%.2f)", entry.getKey(), entry.getValue());
  }

  private static String number(double value) {
    return format("%.2f", value);
  }

  private static String format(String format, Object... values) {
    return String.format(Locale.ROOT, format, values);
  }
}
