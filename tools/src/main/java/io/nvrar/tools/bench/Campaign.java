package io.nvrar.tools.bench;

import com.google.gson.JsonObject;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.tools.bench.measure.JavaRun;
import io.nvrar.tools.bench.measure.ProgramRun;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Settings;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

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
  private final Map<String, String> versions = new TreeMap<>();

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

  /** Returns a line for each cell and round. */
  List<JsonObject> run() throws InterruptedException {
    List<JsonObject> lines = new ArrayList<>();
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
          for (JsonObject line : attempt(programs.get((round + i) % programs.size()), one)) {
            if (ResultLine.isOfRun(line)) {
              JsonObject all = line.getAsJsonObject("versions");
              all.keySet().forEach(name -> versions.put(name, all.get(name).getAsString()));
            } else if (wants(line)) {
              lines.add(line);
            }
          }
        }
      }
    }
    return lines;
  }

  /** The versions of the libraries that were measured, by their names. */
  Map<String, String> versions() {
    return versions;
  }

  /** The programs that were abandoned, and why. The results of the others are still reported. */
  Map<Implementation, Exception> failures() {
    return failures;
  }

  private List<JsonObject> attempt(Implementation program, Settings one)
      throws InterruptedException {
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
  private boolean wants(JsonObject line) {
    String library = line.get("library").getAsString();
    return implementations.stream().anyMatch(one -> one.toString().equals(library));
  }

  private List<JsonObject> run(Implementation program, Settings one)
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
