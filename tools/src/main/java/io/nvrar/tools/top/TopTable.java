package io.nvrar.tools.top;

import io.nvrar.internal.flight.HostWatch.RankSample;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The table of {@code nvrar top}. */
final class TopTable {
  private static final String FORMAT = "%4s  %-16s %8s  %-8s %12s %10s %10s %8s %9s  %s";
  private static final double MEGA = 1e6;

  private TopTable() {}

  static List<String> lines(Look look) {
    List<String> lines = new ArrayList<>();
    int groups = look.groups().size();
    long ranks =
        look.groups().stream()
            .flatMap(group -> group.ranks().stream())
            .filter(rank -> !rank.state().equals("gone") && !rank.state().equals("unseen"))
            .count();
    lines.add(
        String.format(
            Locale.ROOT,
            "%s  %d %s, %d %s",
            look.time(),
            groups,
            groups == 1 ? "group" : "groups",
            ranks,
            ranks == 1 ? "rank" : "ranks"));
    look.problems().forEach(problem -> lines.add("! " + problem));
    for (GroupSample group : look.groups()) {
      lines.add("");
      lines.add(
          String.format(
              Locale.ROOT,
              "group '%s' (%s), %d ranks on %s: %s%s",
              group.group(),
              group.id(),
              group.worldSize(),
              group.backend(),
              group.state(),
              group.problem().isEmpty() ? "" : ", " + group.problem()));
      lines.add(
          FORMAT.formatted(
              "rank",
              "host",
              "pid",
              "state",
              "calls",
              "calls/s",
              "MB/s",
              "in calls",
              "for",
              "last call"));
      group.ranks().forEach(rank -> lines.add(line(rank)));
    }
    return lines;
  }

  private static String line(RankSample rank) {
    boolean known = rank.calls() > 0 || !rank.call().isEmpty();
    return String.format(
            Locale.ROOT,
            FORMAT,
            rank.rank(),
            rank.host().isEmpty() ? "-" : rank.host(),
            rank.pid() == 0 ? "-" : rank.pid(),
            rank.state(),
            known ? rank.calls() : "-",
            known ? number(rank.callsPerSecond()) : "-",
            known ? number(rank.bytesPerSecond() / MEGA) : "-",
            known ? String.format(Locale.ROOT, "%.0f %%", 100 * rank.inCalls()) : "-",
            known ? time(rank.seconds()) : "-",
            rank.call())
        .stripTrailing();
  }

  /** Three digits are enough to see what changes. */
  private static String number(double value) {
    return String.format(Locale.ROOT, value >= 100 || value == 0 ? "%.0f" : "%.2f", value);
  }

  private static String time(double seconds) {
    return seconds < 1
        ? String.format(Locale.ROOT, "%.1f ms", 1e3 * seconds)
        : String.format(Locale.ROOT, "%.1f s", seconds);
  }
}
