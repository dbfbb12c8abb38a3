package io.nvrar.tools.bench;

import java.nio.file.Path;
import java.util.ArrayList;
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
  private static final int MOST_SLOWER = 100;

  @Option(
      names = FROM,
      paramLabel = "FILE",
      description =
          "Measure nothing, but report the results of an earlier run, from its --json FILE.")
  @Nullable Path from;

  @Option(names = "--csv", paramLabel = "FILE", description = "Also as CSV.")
  @Nullable Path csv;

  @Option(names = "--json", paramLabel = "FILE", description = "Also as lines of JSON.")
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

  /** The same options for the program that reports. */
  List<String> arguments() {
    List<String> arguments = new ArrayList<>();
    add(arguments, "--csv", csv);
    add(arguments, "--json", json);
    add(arguments, "--plots", plots);
    add(arguments, DOCUMENT, document);
    add(arguments, BASELINE, baseline);
    add(arguments, SLOWER, slower);
    return arguments;
  }

  private static void add(List<String> arguments, String option, @Nullable Object value) {
    if (value != null) {
      arguments.addAll(List.of(option, value.toString()));
    }
  }
}
