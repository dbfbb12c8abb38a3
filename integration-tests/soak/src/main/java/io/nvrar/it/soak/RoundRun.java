package io.nvrar.it.soak;

import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.call.Tally;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Round;
import io.nvrar.it.soak.worker.Outcome;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** Runs one round: lets the workers run it, injects the fault, and judges how every rank ended. */
final class RoundRun {
  /** Longer than the sum of all limits of a group. */
  private static final int HANG_SECONDS = 90;

  private static final int TICKET_SECONDS = 30;

  private final WorkerPool pool;
  private final Round round;
  private final Duration slack;
  private final Report report;
  private final List<List<WorkerProcess.Task>> members = new ArrayList<>();

  RoundRun(WorkerPool pool, Round round, Duration slack, Report report) {
    this.pool = pool;
    this.round = round;
    this.slack = slack;
    this.report = report;
  }

  /** Returns the deviations from the expected outcome, one sentence each. */
  List<String> run(Dice dice) throws IOException, InterruptedException {
    List<String> complaints = new ArrayList<>();
    WorkerProcess.Task observer = null;
    List<Long> pids = pool.members().stream().map(WorkerProcess::pid).toList();
    Long faultNanos = null;
    try {
      List<String> tickets = createTickets();
      if (round.fault().kind().needsObserver()) {
        observer = pool.observer().begin("observe", "o" + round.number(), tickets.get(0));
        get(observer.observing);
      }
      start(tickets);
      faultNanos =
          new Saboteur(pool, dice)
              .act(round.first(), members.get(0).get(round.fault().rank()), observer, HANG_SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      complaints.add("the round cannot begin: " + e);
    }
    Verdict verdict = new Verdict(round, faultNanos, pids, slack);
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_SECONDS);
    boolean hangs = false;
    List<String> ends = new ArrayList<>();
    for (int g = 0; g < members.size(); g++) {
      GroupPlan group = round.groups().get(g);
      for (int rank = 0; rank < members.get(g).size(); rank++) {
        Outcome outcome = await(group, members.get(g).get(rank), deadline);
        hangs |= outcome.end() == Outcome.End.HANGS;
        report.ended(round.fault(), outcome, faultNanos);
        ends.add(
            String.format(
                Locale.ROOT,
                "  rank %d of %s%s: %s",
                rank,
                group.name(),
                after(faultNanos, outcome),
                outcome));
        String complaint = verdict.complaint(group, rank, outcome);
        if (complaint != null) {
          complaints.add(complaint);
        }
      }
    }
    if (!complaints.isEmpty()) {
      ends.add(0, round.toString());
      report.explain(ends);
    }
    if (observer != null) {
      release(observer, complaints);
    }
    report.ran(round, faultNanos != null);
    if (hangs) {
      dumpThreads();
    }
    return complaints;
  }

  private static String after(@Nullable Long faultNanos, Outcome outcome) {
    return faultNanos == null
        ? ""
        : String.format(
            Locale.ROOT,
            " after %.3f s, closed after %.3f s",
            (outcome.atNanos() - faultNanos) / 1e9,
            (outcome.closedNanos() - faultNanos) / 1e9);
  }

  private List<String> createTickets()
      throws InterruptedException, ExecutionException, TimeoutException {
    List<String> tickets = new ArrayList<>();
    for (int g = 0; g < round.groups().size(); g++) {
      WorkerProcess zero = pool.members().get(round.groups().get(g).workers().get(0));
      WorkerProcess.Task task =
          zero.begin("ticket", "t" + round.number() + "." + g, round.number(), g);
      tickets.add(Base64.getEncoder().encodeToString(get(task.ticket)));
      zero.forget(task);
    }
    return tickets;
  }

  private void start(List<String> tickets) {
    for (int g = 0; g < tickets.size(); g++) {
      List<WorkerProcess.Task> ranks = new ArrayList<>();
      List<Integer> workers = round.groups().get(g).workers();
      for (int rank = 0; rank < workers.size(); rank++) {
        String id = "m" + round.number() + "." + g + "." + rank;
        ranks.add(
            pool.members()
                .get(workers.get(rank))
                .begin("member", id, round.number(), g, rank, tickets.get(g)));
      }
      members.add(ranks);
    }
  }

  private Outcome await(GroupPlan group, WorkerProcess.Task task, long deadlineNanos)
      throws InterruptedException {
    try {
      Outcome outcome =
          task.ended.get(Math.max(0, deadlineNanos - System.nanoTime()), TimeUnit.NANOSECONDS);
      CompletableFuture<Tally> verified = task.verified;
      if (verified.isDone() && !verified.isCompletedExceptionally()) {
        report.verified(group, verified.join());
      }
      return outcome;
    } catch (ExecutionException e) {
      throw new IllegalStateException("an outcome is never exceptional", e);
    } catch (TimeoutException e) {
      return Outcome.of(Outcome.End.HANGS);
    } finally {
      pool.workers().forEach(worker -> worker.forget(task));
    }
  }

  private void release(WorkerProcess.Task observer, List<String> complaints)
      throws InterruptedException {
    WorkerProcess process = pool.observer();
    if (round.fault().kind() != Fault.Kind.OBSERVER_KILL) {
      process.begin("release", observer.id);
      try {
        get(observer.released);
      } catch (ExecutionException | TimeoutException e) {
        complaints.add("the observer does not end: " + e);
      }
    }
    process.forget(observer);
  }

  private static <T> T get(Future<T> future)
      throws InterruptedException, ExecutionException, TimeoutException {
    return future.get(TICKET_SECONDS, TimeUnit.SECONDS);
  }

  private void dumpThreads() throws IOException, InterruptedException {
    for (WorkerProcess worker : pool.workers()) {
      if (worker.isAlive()) {
        worker.dumpThreads();
      }
    }
    TimeUnit.SECONDS.sleep(2); // until the thread dumps are written
  }
}
