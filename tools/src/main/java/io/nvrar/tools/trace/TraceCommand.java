package io.nvrar.tools.trace;

import io.nvrar.internal.flight.ClockOffset;
import io.nvrar.internal.flight.FlightFile;
import io.nvrar.internal.flight.FlightRecord;
import io.nvrar.tools.NvrarCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code nvrar trace}: turns the flight records of a group into a Chrome trace. */
@Command(
    name = "trace",
    mixinStandardHelpOptions = true,
    description = {
      "Show a group's last 1,024 calls on a time line, from its flight records: a trace for https://ui.perfetto.dev or chrome://tracing.",
      "A group that fails writes its record, which the failure's message names; group.writeFlightRecord(FILE) writes one at any time.",
      "Of a group on several hosts, give the records of all of them: their clocks are brought together."
    })
public final class TraceCommand implements NvrarCommand {
  @Spec private @Nullable CommandSpec spec;

  @Parameters(arity = "1..*", paramLabel = "FILE", description = "The flight records of one group.")
  private List<Path> files = new ArrayList<>();

  @Option(
      names = {"-o", "--output"},
      paramLabel = "FILE",
      description = "The trace; without it, the first record's name with .trace.json.")
  private @Nullable Path output;

  /** For {@link java.util.ServiceLoader}. */
  public TraceCommand() {}

  @Override
  public Integer call() throws IOException {
    PrintWriter out = Objects.requireNonNull(spec).commandLine().getOut();
    Path target = output == null ? beside(files.get(0)) : output;
    if (output == null && Files.isSymbolicLink(target)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%s is a link, which this command follows only if --output names it",
              target));
    }
    for (Path file : files) {
      if (Files.exists(target) && Files.exists(file) && Files.isSameFile(target, file)) {
        throw new ParameterException(
            spec.commandLine(),
            String.format(Locale.ROOT, "--output is %s, which is one of the records", target));
      }
    }
    List<String> clocks = new ArrayList<>();
    FlightRecord record = FlightFile.read(files.get(0));
    for (Path file : files.subList(1, files.size())) {
      FlightRecord other = FlightFile.read(file);
      if (!record.isOfSameGroup(other)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "%s is of group '%s' (%s), %s of '%s' (%s): a trace shows one group",
                files.get(0),
                record.header().group(),
                record.header().groupId(),
                file,
                other.header().group(),
                other.header().groupId()));
      }
      if (!record.hosts().containsAll(other.hosts())) {
        clocks.add(sentence(other.header().host(), ClockOffset.between(record, other)));
      }
      record = record.with(other);
    }
    CallTrace calls = new CallTrace(record);
    calls.write(target);
    out.printf(
        Locale.ROOT,
        "%s: %d calls of %d ranks of group '%s', %.3f ms%n",
        target,
        calls.slices(),
        record.ranks().size(),
        record.header().group(),
        calls.spanMillis());
    clocks.forEach(out::println);
    sayWhatIsMissing(out, record, calls);
    return 0;
  }

  private static void sayWhatIsMissing(PrintWriter out, FlightRecord record, CallTrace calls) {
    String absent =
        record.ranks().stream()
            .filter(rank -> !record.isComplete(rank.rank()))
            .map(rank -> String.format(Locale.ROOT, "rank %d on %s", rank.rank(), rank.host()))
            .collect(Collectors.joining(", "));
    if (!absent.isEmpty()) {
      out.printf("Without the records of their hosts, the trace does not show %s.%n", absent);
    } else if (calls.untimed() > 0) {
      out.printf(
          Locale.ROOT,
          "%d calls have no times in the record: the processor's counter is not steady there.%n",
          calls.untimed());
    }
  }

  private static Path beside(Path file) {
    String name = Objects.requireNonNull(file.getFileName(), "file").toString();
    return file.resolveSibling(name.replaceFirst("\\.jsonl$", "") + ".trace.json");
  }

  private static String sentence(String host, ClockOffset offset) {
    if (offset.calls() == 0) {
      return String.format(
          Locale.ROOT,
          "%s has no call with the others in its record: it is placed by its date, which may be wrong by as much as the hosts' clocks differ.",
          host);
    }
    return offset.errorNanos() < 0
        ? String.format(
            Locale.ROOT,
            "The clock of %s runs at another rate: its calls are placed to within %.1f us of what %d shared calls say.",
            host,
            -offset.errorNanos() / 1e3,
            offset.calls())
        : String.format(
            Locale.ROOT,
            "The calls of %s are placed to within %.1f us, by %d calls that it shares with the others.",
            host,
            offset.errorNanos() / 1e3,
            offset.calls());
  }
}
