package io.nvrar.tools.soak;

import io.nvrar.tools.soak.call.Dice;
import io.nvrar.tools.soak.plan.Fault;
import io.nvrar.tools.soak.plan.Round;
import io.nvrar.tools.soak.worker.WorkerMain;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** Runs rounds until the time is over or something is found. */
final class Soak {
  private static final long PROGRESS_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int END_SECONDS = 20;

  /**
   * What to run.
   *
   * @param seed what the rounds are drawn from
   * @param firstRound the number of the first
   * @param maxRounds the most rounds
   * @param time how long to begin rounds
   * @param roundsPerCheck how many rounds lie between two looks at the processes
   * @param members worker processes for members
   * @param slack what a busy machine may add to every limit
   * @param workerClass {@link WorkerMain} but in tests
   * @param directory for the workers' logs
   */
  record Settings(
      long seed,
      int firstRound,
      int maxRounds,
      Duration time,
      int roundsPerCheck,
      int members,
      Duration slack,
      String workerClass,
      Path directory) {}

  private final Settings settings;
  private final Consumer<String> out;
  private final Report report = new Report();
  private final LeakCheck leakCheck = new LeakCheck();

  /** From where to repeat what was found. */
  private int repeatFrom;

  Soak(Settings settings, Consumer<String> out) {
    this.settings = settings;
    this.out = out;
  }

  /** Runs all; returns what was found. */
  Report run() throws IOException, InterruptedException {
    WorkerPool pool =
        new WorkerPool(
            settings.workerClass(), settings.seed(), settings.members(), settings.directory());
    Thread hook = new Thread(pool::killAll, "soak-end");
    Runtime.getRuntime().addShutdownHook(hook);
    try {
      runRounds(pool);
    } finally {
      pool.end();
      Runtime.getRuntime().removeShutdownHook(hook);
    }
    if (report.isClean()) {
      repeatFrom = settings.firstRound(); // only all rounds together show what follows
      report.judgeEffects();
    }
    report.leak(leftBehind(pool));
    report.leak(leakCheck.growth());
    report.summary(leakCheck).forEach(out);
    report.complaints().forEach(complaint -> out.accept("FOUND " + complaint));
    if (!report.isClean()) {
      out.accept(
          "to repeat: bin/nvrar soak --seed %d --workers %d --from-round %d; logs are in %s"
              .formatted(settings.seed(), settings.members(), repeatFrom, settings.directory()));
    }
    return report;
  }

  private void runRounds(WorkerPool pool) throws IOException, InterruptedException {
    long start = System.nanoTime();
    long lastProgress = start;
    int first = settings.firstRound();
    int next = first;
    int lastCheck = first;
    repeatFrom = first;
    while (report.isClean()
        && next - first < settings.maxRounds()
        && System.nanoTime() - start < settings.time().toNanos()) {
      Round round = Round.draw(settings.seed(), next, settings.members());
      List<String> complaints = runOne(pool, round);
      next++;
      if (!complaints.isEmpty()) {
        repeatFrom = round.number();
        report.complain(round, complaints);
        break;
      }
      if ((next - first) % settings.roundsPerCheck() == 0) {
        report.leak(leakCheck.check(pool));
        if (report.isClean()) {
          // With the rounds before it: a process's first check is what the next is compared with.
          repeatFrom = lastCheck;
          lastCheck = next;
        }
      }
      if (System.nanoTime() - lastProgress > PROGRESS_NANOS) {
        lastProgress = System.nanoTime();
        out.accept(report.progress(TimeUnit.NANOSECONDS.toSeconds(lastProgress - start), next));
      }
    }
    if (report.isClean()) {
      report.leak(leakCheck.check(pool));
    }
  }

  private List<String> runOne(WorkerPool pool, Round round)
      throws IOException, InterruptedException {
    WorkerProcess victim = pool.members().get(round.first().faultyWorker());
    List<String> complaints =
        new ArrayList<>(
            new RoundRun(pool, round, settings.slack(), report)
                .run(Dice.of(settings.seed(), round.number(), -1)));
    if (round.fault().kind() == Fault.Kind.KILL) {
      awaitGone(victim, complaints);
    } else if (round.fault().kind() == Fault.Kind.OBSERVER_KILL) {
      awaitGone(pool.observer(), complaints);
    }
    for (WorkerProcess worker : pool.workers()) {
      boolean mayDie =
          (round.fault().kind() == Fault.Kind.KILL && worker == victim)
              || (round.fault().kind() == Fault.Kind.OBSERVER_KILL && worker == pool.observer());
      if (!worker.isAlive() && !mayDie) {
        complaints.add("worker " + worker.pid() + " died by itself; its log may say why");
      }
    }
    if (complaints.isEmpty()) {
      pool.replaceDead();
    }
    return complaints;
  }

  private static void awaitGone(WorkerProcess worker, List<String> complaints)
      throws InterruptedException {
    try {
      worker.gone().get(END_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      if (worker.isAlive()) {
        complaints.add("worker " + worker.pid() + " was killed and lives");
      }
    }
  }

  /** Processes and files that outlive the run. */
  private List<String> leftBehind(WorkerPool pool) throws IOException {
    List<String> left = new ArrayList<>();
    if (!pool.living().isEmpty()) {
      left.add("processes that do not end: " + pool.living());
    }
    try (Stream<Path> files = Files.list(WorkerPool.temporary(settings.directory()))) {
      List<Path> names = files.toList();
      if (!names.isEmpty()) {
        left.add("temporary files: " + names);
      }
    }
    return left;
  }
}
