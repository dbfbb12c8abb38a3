package io.nvrar.tools.bench.results;

import io.nvrar.tools.bench.results.Results.Part;
import io.nvrar.tools.bench.setup.Implementation;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.Function;

/** Writes the results as tables into a Markdown page, between two marks of the page. */
public final class MarkdownReport {
  /** Where on the page results stand: between two marks. */
  public enum Place {
    HOST("<!-- results: written by bin/nvrar bench --document -->", "<!-- end of results -->"),
    HOSTS(
        "<!-- hosts results: written by bin/nvrar bench --hosts N --document -->",
        "<!-- end of hosts results -->"),
    GPUS(
        "<!-- gpu results: written by bin/nvrar bench --backend cuda --document -->",
        "<!-- end of gpu results -->"),
    FUSED(
        "<!-- fused results: written by bin/nvrar bench --backend cuda --fused --document -->",
        "<!-- end of fused results -->");

    final String begin;
    final String end;

    Place(String begin, String end) {
      this.begin = begin;
      this.end = end;
    }

    MarkedPage on(Path page) {
      return new MarkedPage(page, begin, end);
    }
  }

  private MarkdownReport() {}

  /** Checks the page before the measurement, which takes minutes. */
  public static void check(Path page, Place place) throws IOException {
    place.on(page).check();
  }

  public static void write(Path page, Place place, String machine, String command, Results results)
      throws IOException {
    place.on(page).write(text(machine, command, results));
  }

  static String text(String machine, String command, Results results) {
    StringBuilder text = new StringBuilder();
    text.append("On ").append(machine).append(", by\n\n```\n").append(command).append("\n```\n\n");
    for (Part part : results.parts()) {
      if (part.onGpu()) {
        appendOfGpus(results, part, text);
        continue;
      }
      text.append("### ").append(part.title()).append("\n\n");
      text.append("| size (B) | C++ us | Java us | Open MPI us | C++ / Open MPI | Java - C++ us ");
      text.append("| C++ in place us | C++ algbw GB/s | C++ busbw GB/s | #wrong |\n");
      text.append("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
      for (long bytes : Results.sizes(part)) {
        text.append(line(part, bytes)).append('\n');
      }
      text.append('\n');
      for (String sentence : TextReport.summary(part)) {
        text.append("- ").append(sentence).append('\n');
      }
      text.append('\n');
    }
    return text.toString();
  }

  private static void appendOfGpus(Results results, Part part, StringBuilder text) {
    for (GpuReport.Table table : GpuReport.tables(part)) {
      text.append("### ").append(table.title()).append("\n\n");
      text.append("| ").append(String.join(" | ", table.columns())).append(" |\n|");
      text.append("---:|".repeat(table.columns().size())).append('\n');
      for (List<String> row : table.rows()) {
        text.append("| ").append(String.join(" | ", row)).append(" |\n");
      }
      text.append('\n');
    }
    for (String sentence : GpuReport.summary(results, part)) {
      text.append("- ").append(sentence).append('\n');
    }
    text.append('\n');
  }

  private static String line(Part part, long bytes) {
    Optional<Row> cpp = Results.find(part, Implementation.CPP, bytes, Row.OUT_OF_PLACE);
    Optional<Row> java = Results.find(part, Implementation.JAVA, bytes, Row.OUT_OF_PLACE);
    Optional<Row> mpi = Results.find(part, Implementation.OPEN_MPI, bytes, Row.OUT_OF_PLACE);
    Optional<Row> inPlace = Results.find(part, Implementation.CPP, bytes, Row.IN_PLACE);
    long wrong =
        part.rows().stream().filter(row -> row.bytes() == bytes).mapToLong(Row::wrong).sum();
    return String.join(
        " | ",
        "| " + bytes,
        number(cpp, Row::timeUs),
        number(java, Row::timeUs),
        number(mpi, Row::timeUs),
        ratio(cpp, mpi),
        number(java.filter(row -> cpp.isPresent()), row -> row.timeUs() - cpp.get().timeUs()),
        number(inPlace, Row::timeUs),
        number(cpp, Row::algbwGbps),
        number(cpp, Row::busbwGbps),
        wrong + " |");
  }

  private static String ratio(Optional<Row> over, Optional<Row> under) {
    OptionalDouble ratio = Results.ratio(over, under);
    return ratio.isPresent() ? number(ratio.getAsDouble()) : "";
  }

  private static String number(Optional<Row> row, Function<Row, Double> of) {
    return row.map(of).map(MarkdownReport::number).orElse("");
  }

  private static String number(double value) {
    return String.format(Locale.ROOT, "%.2f", value);
  }
}
