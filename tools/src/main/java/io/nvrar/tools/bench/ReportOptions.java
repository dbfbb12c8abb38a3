package io.nvrar.tools.bench;

import io.nvrar.tools.bench.plots.PlotDirectory;
import io.nvrar.tools.bench.results.MarkdownReport;
import io.nvrar.tools.bench.results.ResultFiles;
import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.results.Results;
import java.io.IOException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/** Where the results of {@code nvrar bench} go, and, with --from, come from. */
final class ReportOptions {
  static final String FROM = "--from";
  static final String DOCUMENT = "--document";

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

  /** Checks the places before the measurement, which takes minutes. */
  void check(MarkdownReport.Place place) throws IOException {
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
