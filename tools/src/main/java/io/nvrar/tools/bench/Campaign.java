package io.nvrar.tools.bench;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.tools.bench.measure.JavaRun;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.results.Row;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Settings;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Runs the implementations in turn, in several rounds. Each run uses new processes, and each round
 * begins with another implementation, so that other load on the machine affects all of them alike.
 */
final class Campaign {
  private final List<Settings> settings;
  private final List<Implementation> implementations;
  private final int rounds;
  private final Path home;
  private final PrintWriter progress;
  private final Map<Implementation, Exception> failures = new EnumMap<>(Implementation.class);

  Campaign(
      List<Settings> settings,
      List<Implementation> implementations,
      int rounds,
      Path home,
      PrintWriter progress) {
    this.settings = settings;
    this.implementations = implementations;
    this.rounds = rounds;
    this.home = home;
    this.progress = progress;
  }

  /**
   * Returns one row per cell, over all rounds, ordered by settings, then by size and
   * implementation.
   */
  List<Row> run() throws InterruptedException {
    Map<Row.Key, List<Row>> byCell = new LinkedHashMap<>();
    for (int round = 0; round < rounds; round++) {
      for (Settings one : settings) {
        progress.printf(
            Locale.ROOT,
            "nvrar: round %d of %d, %s, %d processes%n",
            round + 1,
            rounds,
            one.name(),
            one.processes());
        List<Implementation> programs = programs(one);
        for (int i = 0; i < programs.size(); i++) {
          for (Row row : attempt(programs.get((round + i) % programs.size()), one)) {
            if (wants(row)) {
              byCell.computeIfAbsent(row.key(), key -> new ArrayList<>()).add(row);
            }
          }
        }
      }
    }
    return byCell.values().stream().map(Row::merge).toList();
  }

  /** The programs that were abandoned, and why. The results of the others are still reported. */
  Map<Implementation, Exception> failures() {
    return failures;
  }

  private List<Row> attempt(Implementation program, Settings one) throws InterruptedException {
    if (failures.containsKey(program)) {
      return List.of();
    }
    try {
      return run(program, one);
    } catch (IOException | CollectiveException | BackendUnavailableException e) {
      progress.printf("nvrar: %s was abandoned: %s%n", program, e.getMessage());
      failures.put(program, e);
      return List.of();
    }
  }

  private List<Implementation> programs(Settings one) {
    return implementations.stream()
        .filter(implementation -> ProgramRun.leftOut(home, implementation, one).isEmpty())
        .map(Implementation::program)
        .distinct()
        .toList();
  }

  // A program also measures implementations that run in its processes.
  private boolean wants(Row row) {
    return implementations.stream().anyMatch(one -> one.toString().equals(row.implementation()));
  }

  private List<Row> run(Implementation program, Settings one)
      throws IOException, InterruptedException {
    return switch (program) {
      case CPP, CPP_APART, STUDY ->
          ProgramRun.cpp(home, one, implementations.contains(Implementation.STUDY));
      case JAVA -> JavaRun.run(one);
      case OPEN_MPI -> ProgramRun.mpi(home, one);
      case NCCL, TORCH_ONE_SHOT, TORCH_TWO_SHOT, TORCH_REDUCE_SCATTER, TORCH_LOW_CONTENTION ->
          ProgramRun.torch(home, one, progress);
    };
  }
}
