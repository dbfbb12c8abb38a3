package io.nvrar.tools;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.internal.flight.PostMortem;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code nvrar post-mortem}: prints what each rank of a failed group did last, and which rank and
 * call are at fault.
 */
@Command(
    name = "post-mortem",
    mixinStandardHelpOptions = true,
    description = {
      "Say what each rank of a failed group did last, and which rank and call are at fault.",
      "The failure's message names the file. Of a group on several hosts, each host has written one."
    })
public final class PostMortemCommand implements NvrarCommand {
  @Spec private @Nullable CommandSpec spec;

  @Parameters(
      arity = "0..*",
      paramLabel = "FILE",
      description = "Flight records; without any, the newest one of this host's groups.")
  private List<Path> files = new ArrayList<>();

  /** For {@link java.util.ServiceLoader}. */
  public PostMortemCommand() {}

  @Override
  public Integer call() {
    PrintWriter out = Objects.requireNonNull(spec).commandLine().getOut();
    List<FlightRecord> groups = new ArrayList<>();
    List<String> names = new ArrayList<>();
    for (Path file : files.isEmpty() ? List.of(FlightFile.newest()) : files) {
      FlightRecord record = FlightFile.read(file);
      int known = 0;
      while (known < groups.size() && !groups.get(known).isOfSameGroup(record)) {
        known++;
      }
      if (known == groups.size()) {
        groups.add(record);
        names.add(file.toString());
      } else {
        groups.set(known, groups.get(known).with(record));
        names.set(known, names.get(known) + ", " + file);
      }
    }
    for (int i = 0; i < groups.size(); i++) {
      print(out, names.get(i), groups.get(i));
    }
    return 0;
  }

  private static void print(PrintWriter out, String files, FlightRecord record) {
    FlightRecord.Header header = record.header();
    out.printf("flight record  %s%n", files);
    out.printf(
        Locale.ROOT,
        "group          '%s', %d ranks, %s, library build %s%n",
        header.group(),
        header.worldSize(),
        header.backend(),
        header.build());
    out.printf(Locale.ROOT, "written        %s by rank %d%n", header.time(), header.writer());
    out.printf("failure        %s%n%n", header.message());
    out.printf(
        "%4s  %-16s %8s  %-8s %12s  %s%n",
        "rank", "host", "pid", "state", "began before", "last call");
    for (FlightRecord.Rank rank : record.ranks()) {
      CallRecord last = rank.last();
      out.printf(
          Locale.ROOT,
          "%4d  %-16s %8d  %-8s %12s  %s%n",
          rank.rank(),
          rank.host(),
          rank.pid(),
          last.state().name().toLowerCase(Locale.ROOT),
          before(last, header),
          last.description());
    }
    out.printf("%nat fault: %s%n%n", PostMortem.of(record).sentence());
  }

  private static String before(CallRecord call, FlightRecord.Header header) {
    if (call.beginNanos() == 0) {
      return "-";
    }
    long nanos = header.nanos() - call.beginNanos();
    return nanos < TimeUnit.SECONDS.toNanos(10)
        ? String.format(Locale.ROOT, "%.3f ms", nanos / 1e6)
        : String.format(Locale.ROOT, "%.1f s", nanos / 1e9);
  }
}
