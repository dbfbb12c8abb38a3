package io.nvrar.it.soak;

import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.Fleet;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.WorkerMain;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** The controller of the soak: runs rounds until the time is over or a defect is found. */
final class Soak {
  private static final long PROGRESS_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int END_SECONDS = 20;

  /**
   * The settings of a run.
   *
   * @param seed the seed from which the rounds are drawn
   * @param firstRound the number of the first round
   * @param maxRounds the largest number of rounds
   * @param time for how long new rounds are started
   * @param roundsPerCheck the number of rounds between two leak checks
   * @param fleet the worker processes for members
   * @param slack what a busy machine may add to every limit
   * @param workerClass {@link WorkerMain}, except in tests
   * @param directory the directory of the workers' logs
   */
  record Settings(
      long seed,
      int firstRound,
      int maxRounds,
      Duration time,
      int roundsPerCheck,
      Fleet fleet,
      Duration slack,
      String workerClass,
      Path directory) {}

  private final Settings settings;
  private final Consumer<String> out;
  private final Report report = new Report();
  private final LeakCheck leakCheck = new LeakCheck();

  /** The round from which the findings can be repeated. */
  private int repeatFrom;

  Soak(Settings settings, Consumer<String> out) {
    this.settings = settings;
    this.out = out;
  }

  /** Runs everything; returns the report. */
  Report run() throws IOException, InterruptedException {
    WorkerPool pool =
        new WorkerPool(
            settings.workerClass(), settings.seed(), settings.fleet(), settings.directory());
    Thread hook = new Thread(pool::killAll, "soak-end");
    Runtime.getRuntime().addShutdownHook(hook);
    try {
      runRounds(pool);
    } finally {
      pool.end();
      Runtime.getRuntime().removeShutdownHook(hook);
    }
    if (report.isClean()) {
      repeatFrom = settings.firstRound(); // the checks below need all rounds
      report.judgeEffects();
    }
    report.leak(leftBehind(pool));
    report.leak(leakCheck.growth());
    report.summary(leakCheck).forEach(out);
    report.complaints().forEach(complaint -> out.accept("FOUND " + complaint));
    if (!report.isClean()) {
      out.accept(
          String.format(
              Locale.ROOT,
              "to repeat, with GPUs on %d hosts: bin/nvrar soak --seed %d --workers %d --hosts %d --from-round %d; logs are in %s",
              settings.fleet().gpus(),
              settings.seed(),
              settings.fleet().onFirstHost(),
              settings.fleet().hosts(),
              repeatFrom,
              settings.directory()));
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
      Round round = Round.draw(settings.seed(), next, settings.fleet());
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
          // Including the rounds before it, because a process's first check is the baseline of the
          // next.
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

  /** Returns the processes and files that outlive the run. */
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
    List<Path> announced = pool.announced();
    if (!announced.isEmpty()) {
      left.add("members that nvrar top still finds: " + announced);
    }
    return left;
  }
}
