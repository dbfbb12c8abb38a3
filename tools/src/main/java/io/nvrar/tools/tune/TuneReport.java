package io.nvrar.tools.tune;

import io.nvrar.tools.bench.setup.OptionNames;
import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;

/**
 * What the tuner has found, for people and for programs.
 *
 * @param complete whether there was time for all that was planned
 * @param top how many candidates of a size to show
 */
record TuneReport(
    String file,
    String architecture,
    String device,
    TuneSettings settings,
    int points,
    double seconds,
    boolean complete,
    List<Tuner.Found> found,
    int top) {

  /** The form of the JSON. */
  record Json(
      String file,
      String architecture,
      String device,
      String backend,
      int ranks,
      int ranksPerNode,
      String type,
      String collective,
      int points,
      double seconds,
      boolean complete,
      List<Size> sizes) {}

  /** A size; {@code libraryShapeUs} is the fastest of those with the library's shape. */
  record Size(
      long bytes, Entry winner, double libraryShapeUs, List<Entry> top, int wrongCandidates) {}

  /** A candidate with its times. */
  record Entry(
      String algorithm,
      int blocks,
      int tiles,
      int repeats,
      double timeUs,
      double leastUs,
      double mostUs) {
    static Entry of(Tuner.Measured measured) {
      Candidate candidate = measured.candidate();
      Timing timing = measured.timing();
      return new Entry(
          OptionNames.of(candidate.algorithm()),
          candidate.blocks(),
          candidate.tiles(),
          measured.repeats(),
          timing.us(),
          timing.leastUs(),
          timing.mostUs());
    }
  }

  Json json() {
    return new Json(
        file,
        architecture,
        device,
        OptionNames.of(settings.backend()),
        settings.ranks(),
        settings.ranksPerNode(),
        OptionNames.of(settings.type()),
        OptionNames.of(settings.collective()),
        points,
        seconds,
        complete,
        found.stream().map(this::size).toList());
  }

  private Size size(Tuner.Found of) {
    return new Size(
        of.bytes(),
        Entry.of(of.winner()),
        libraryShapeUs(of),
        of.ranking().stream().limit(top).map(Entry::of).toList(),
        of.wrong().size());
  }

  private static double libraryShapeUs(Tuner.Found of) {
    return of.ranking().stream()
        .filter(each -> each.candidate().complexity() == 0)
        .mapToDouble(each -> each.timing().us())
        .findFirst()
        .orElse(0);
  }

  void print(PrintWriter out) {
    out.printf(
        Locale.ROOT,
        "# %s of %s, %d ranks, %s %s: %d points in %.0f s%s%n",
        OptionNames.of(settings.collective()),
        OptionNames.of(settings.type()),
        settings.ranks(),
        architecture,
        device,
        points,
        seconds,
        complete ? "" : ", which was too short for all that was planned");
    out.printf(
        Locale.ROOT,
        "%10s %3s  %-40s %9s %9s %9s%n",
        "size (B)",
        "",
        "candidate (* is in the table)",
        "time (us)",
        "least",
        "most");
    for (Tuner.Found of : found) {
      boolean shown = false;
      for (int i = 0; i < Math.min(top, of.ranking().size()); i++) {
        Tuner.Measured each = of.ranking().get(i);
        shown |= each.equals(of.winner());
        line(out, of, each, i + 1);
      }
      if (!shown) {
        line(out, of, of.winner(), of.ranking().indexOf(of.winner()) + 1);
      }
    }
    out.printf("Written to %s%n", file);
  }

  private static void line(PrintWriter out, Tuner.Found of, Tuner.Measured each, int place) {
    out.printf(
        Locale.ROOT,
        "%10d %2d%s  %-40s %9s %9s %9s%n",
        of.bytes(),
        place,
        each.equals(of.winner()) ? "*" : " ",
        each.candidate(),
        TuneProgress.number(each.timing().us()),
        TuneProgress.number(each.timing().leastUs()),
        TuneProgress.number(each.timing().mostUs()));
  }
}
