package io.nvrar.tools.bench;

import com.google.gson.JsonObject;
import io.nvrar.CollectiveException;
import io.nvrar.tools.AnswerPipe;
import io.nvrar.tools.NvrarCommand;
import io.nvrar.tools.bench.measure.JavaRun;
import io.nvrar.tools.bench.results.Report;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.OptionNames.Compared;
import io.nvrar.tools.bench.setup.Settings;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code nvrar bench}: times the collectives between processes of this machine. */
@Command(
    name = "bench",
    mixinStandardHelpOptions = true,
    description = {
      "Time the collectives between processes of this machine: from C++, from Java, and beside"
          + " Open MPI where it is installed, in turn and in one table. On GPUs beside the kernels"
          + " of the study that ours are compared with, and, where python3 has PyTorch, NCCL and"
          + " PyTorch's symmetric memory.",
      "Time: the mean of a batch of calls made back to back; of the ranks the slowest, of the"
          + " batches and rounds the median. After each batch, on GPUs after those of a mode, one"
          + " more is checked, every element on every rank, against values computed without the"
          + " library."
    })
public final class BenchCommand implements NvrarCommand {
  private static final String REPORTS = "reports";

  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Option(
      names = "--compare",
      split = ",",
      converter = OptionNames.Comparisons.class,
      paramLabel = "NAME",
      description =
          "What to measure: c++ and java, both where neither is named, and beside them on the CPU"
              + " mpi (open-mpi), on GPUs nccl, torch (torch-one-shot, torch-two-shot,"
              + " torch-reduce-scatter, torch-low-contention), study, with --fused also c++-apart"
              + " (default: all that are here).")
  private @Nullable List<Compared> compare;

  @Option(
      names = "--rounds",
      defaultValue = "3",
      paramLabel = "N",
      description = "Rounds, each in fresh processes (default: ${DEFAULT-VALUE}).")
  private int rounds;

  @Mixin private final MeasurementOptions measured = new MeasurementOptions();

  @Mixin(name = REPORTS)
  private final ReportOptions reports = new ReportOptions();

  @Option(names = "--member", hidden = true, description = "Be the member of this rank.")
  private @Nullable Integer member;

  @Option(names = "--barrier", hidden = true, description = "Where the members meet.")
  private @Nullable Path barrier;

  /** For {@link java.util.ServiceLoader}. */
  public BenchCommand() {}

  @Override
  public Integer call() throws IOException, InterruptedException {
    measured.resolve();
    said(this::checkOptions);
    List<Integer> processes = measured.ranks.processes;
    if (member != null && barrier != null && processes != null) {
      Settings settings = measured.settings(measured.call.measured().get(0), processes.get(0));
      try (PrintWriter answers = AnswerPipe.open(spec.commandLine())) {
        JavaRun.member(settings, member, barrier, answers);
      }
      return 0;
    }
    Path home = Path.of(System.getProperty("nvrar.home", "."));
    Report report = new Report(home, spec.commandLine().getOut(), spec.commandLine().getErr());
    if (reports.from != null) {
      return report.ofFile(reports.arguments(), reports.from);
    }
    said(measured::checkMachine);
    return measure(home, report);
  }

  private int measure(Path home, Report report) throws IOException, InterruptedException {
    List<Settings> settings = measured.settings(reports.document != null);
    List<JsonObject> planned = new ArrayList<>(List.of(ResultLine.ofRun("", command(), Map.of())));
    settings.forEach(one -> planned.add(JavaRun.planned(one)));
    report.check(reports.arguments(), planned);
    PrintWriter err = spec.commandLine().getErr();
    Campaign campaign =
        new Campaign(settings, Contestants.choose(compare, home, settings, err), rounds, home, err);
    List<JsonObject> results = campaign.run();
    List<JsonObject> lines = new ArrayList<>();
    String machine = Machine.describe(measured.backend());
    lines.add(ResultLine.ofRun(machine, command(), campaign.versions()));
    lines.addAll(results);
    int code = results.isEmpty() ? 0 : report.ofLines(reports.arguments(), lines);
    if (!campaign.failures().isEmpty()) {
      throw new CollectiveException(
          campaign.failures().entrySet().stream()
              .map(
                  one ->
                      String.format(
                          Locale.ROOT,
                          "%s was abandoned: %s",
                          one.getKey(),
                          one.getValue().getMessage()))
              .collect(Collectors.joining("; ")));
    }
    return code;
  }

  private String command() {
    List<String> words = new ArrayList<>(List.of("bin/nvrar", "bench"));
    // Below the launcher's root command they begin with this command's name.
    spec.commandLine().getParseResult().originalArgs().stream()
        .dropWhile(spec.name()::equals)
        .forEach(words::add);
    return String.join(" ", words);
  }

  private void checkOptions() {
    measured.check();
    Limits.require(rounds, "--rounds", 1, 1000);
    checkFrom();
    reports.checkOptions();
  }

  /** With --from nothing is measured, so an option that says how would be lost. */
  private void checkFrom() {
    if (reports.from == null) {
      return;
    }
    CommandSpec mixin = Objects.requireNonNull(spec.mixins().get(REPORTS));
    Set<String> fit = new HashSet<>(mixin.optionsMap().keySet());
    fit.remove(ReportOptions.DOCUMENT);
    for (OptionSpec given : spec.commandLine().getParseResult().matchedOptions()) {
      if (!given.inherited() && !fit.contains(given.longestName())) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT, "%s is not for --from, which measures nothing", given.longestName()));
      }
    }
  }

  /** Runs a check of options, whose sentence becomes that of the command line. */
  private void said(Runnable check) {
    try {
      check.run();
    } catch (IllegalArgumentException e) {
      throw new ParameterException(spec.commandLine(), String.valueOf(e.getMessage()), e);
    }
  }
}
