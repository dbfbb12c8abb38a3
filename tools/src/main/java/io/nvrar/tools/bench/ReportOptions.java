package io.nvrar.tools.bench;

import io.nvrar.tools.bench.plots.PlotDirectory;
import io.nvrar.tools.bench.results.Baseline;
import io.nvrar.tools.bench.results.Baseline.Series;
import io.nvrar.tools.bench.results.BaselineReport;
import io.nvrar.tools.bench.results.MarkdownReport;
import io.nvrar.tools.bench.results.ResultFiles;
import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.results.Results;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** Where the results of {@code nvrar bench} go, and, with --from, come from. */
final class ReportOptions {
  static final String FROM = "--from";
  static final String DOCUMENT = "--document";
  private static final String BASELINE = "--baseline";
  private static final String SLOWER = "--slower";
  private static final double SLOWER_PART = 0.1;
  private static final int MOST_SLOWER = 100;

  @Option(
      names = FROM,
      paramLabel = "FILE",
      description =
          "Measure nothing, but report the results of an earlier run, from its --json FILE.")
  @Nullable Path from;

  @Option(names = "--csv", paramLabel = "FILE", description = "Also as CSV.")
  @Nullable Path csv;

  @Option(names = "--json", paramLabel = "FILE", description = "Also as JSON.")
  @Nullable Path json;

  @Option(
      names = "--plots",
      paramLabel = "DIR",
      description =
          "Also as pictures by size, PNG and SVG, in this directory, and as a page of them,"
              + " index.html: time, bus bandwidth, and how many times as fast as the fastest of the"
              + " other libraries ours are.")
  @Nullable Path plots;

  @Option(
      names = DOCUMENT,
      paramLabel = "FILE",
      description =
          "Also all as tables in this Markdown file, between its two marks; on the CPU with the"
              + " other collectives at three sizes.")
  @Nullable Path document;

  @Option(
      names = BASELINE,
      paramLabel = "FILE",
      description =
          "Also the ratios of the times to those of an earlier run, from its --json FILE. The exit"
              + " code is 4 if c++ or java has become slower: in the median of the sizes of a table"
              + " by more than --slower, or at one size by more than that and even in its fastest"
              + " batch slower than the slowest of the earlier run.")
  @Nullable Path baseline;

  @Option(
      names = SLOWER,
      paramLabel = "PART",
      description = "The part by which times may exceed those of --baseline (default: 0.1).")
  @Nullable Double slower;

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException if one is wrong, with the reason as one sentence
   */
  void checkOptions() {
    if (slower == null) {
      return;
    }
    if (baseline == null) {
      throw new IllegalArgumentException(SLOWER + " is for " + BASELINE);
    }
    if (!(slower >= 0 && slower <= MOST_SLOWER)) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%s is %s, must be 0 to %d", SLOWER, slower, MOST_SLOWER));
    }
  }

  /** The earlier run of --baseline; null if none is named. */
  @Nullable Baseline baseline() throws IOException {
    return baseline == null ? null : Baseline.read(baseline);
  }

  /**
   * Prints the ratios to an earlier run.
   *
   * @return which of ours are slower, as a sentence; empty if none is
   */
  String compare(Baseline earlier, Run run, PrintWriter out) throws IOException {
    double part = slower == null ? SLOWER_PART : slower;
    List<Series> compared = earlier.compare(run.rows());
    BaselineReport.print(earlier, compared, out);
    List<String> clauses = Baseline.slower(compared, part);
    return clauses.isEmpty()
        ? ""
        : String.format(
            Locale.ROOT,
            "slower than the baseline by more than %s: %s",
            part,
            String.join("; ", clauses));
  }

  /** Checks the places before the measurement, which takes minutes. */
  void check(MarkdownReport.Place place) throws IOException {
    if (csv != null) {
      ResultFiles.check("--csv", csv);
    }
    if (json != null) {
      ResultFiles.check("--json", json);
    }
    if (document != null) {
      MarkdownReport.check(document, place);
    }
    if (plots != null) {
      PlotDirectory.check(plots);
    }
  }

  void write(MarkdownReport.Place place, Run run) throws IOException {
    if (csv != null) {
      ResultFiles.csv(csv, run.rows());
    }
    if (json != null) {
      ResultFiles.json(json, run);
    }
    if (plots != null) {
      PlotDirectory.write(plots, run);
    }
    if (document != null) {
      MarkdownReport.write(document, place, run.machine(), run.command(), new Results(run.rows()));
    }
  }
}
