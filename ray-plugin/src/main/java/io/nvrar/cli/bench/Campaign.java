package io.nvrar.cli.bench;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs the implementations in turn, several rounds, each time in fresh processes and each round
 * beginning with another: what the machine does meanwhile meets all of them.
 */
final class Campaign {
  private final List<Settings> settings;
  private final List<Implementation> implementations;
  private final int rounds;
  private final Path home;
  private final PrintWriter progress;

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

  /** One row a cell, over all rounds; by settings, then by size and implementation. */
  List<Row> run() throws IOException, InterruptedException {
    Map<Row.Key, List<Row>> byCell = new LinkedHashMap<>();
    for (int round = 0; round < rounds; round++) {
      for (Settings one : settings) {
        progress.printf(
            "nvrar: round %d of %d, %s, %d processes%n",
            round + 1, rounds, Names.of(one.collective()), one.processes());
        for (int i = 0; i < implementations.size(); i++) {
          Implementation next = implementations.get((round + i) % implementations.size());
          if (measures(next, one)) {
            for (Row row : run(next, one)) {
              byCell.computeIfAbsent(row.key(), key -> new ArrayList<>()).add(row);
            }
          }
        }
      }
    }
    return byCell.values().stream().map(Row::merge).toList();
  }

  private boolean measures(Implementation implementation, Settings one) {
    return implementation != Implementation.OPEN_MPI || ProgramRun.mpiLeftOut(home, one).isEmpty();
  }

  private List<Row> run(Implementation implementation, Settings one)
      throws IOException, InterruptedException {
    return switch (implementation) {
      case CPP -> ProgramRun.cpp(home, one);
      case JAVA -> JavaRun.run(one);
      case OPEN_MPI -> ProgramRun.mpi(home, one);
    };
  }
}
