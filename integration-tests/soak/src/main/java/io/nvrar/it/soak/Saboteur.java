package io.nvrar.it.soak;

import io.nvrar.it.soak.call.Dice;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.GroupPlan;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/** Injects the fault of a round at its moment. */
final class Saboteur {
  private final WorkerPool pool;
  private final Dice dice;

  Saboteur(WorkerPool pool, Dice dice) {
    this.pool = pool;
    this.dice = dice;
  }

  /**
   * Waits for the moment and injects the fault; for a stop, returns when the process continues.
   *
   * @param victim the task of the fault's rank
   * @param observer the task of the observer, if the fault needs one
   * @param limitSeconds how long the moment may take to come
   * @return when the fault happened; null if the member ended before its moment
   */
  @Nullable Long act(
      GroupPlan group,
      WorkerProcess.Task victim,
      WorkerProcess.@Nullable Task observer,
      int limitSeconds)
      throws IOException, InterruptedException {
    Fault fault = group.fault();
    if (fault.kind() == Fault.Kind.NONE) {
      return null;
    }
    Long reached = awaitMoment(victim, limitSeconds);
    if (reached == null || !fault.kind().external) {
      return reached;
    }
    LockSupport.parkNanos(
        reached + TimeUnit.MICROSECONDS.toNanos(fault.delayMicros()) - System.nanoTime());
    WorkerProcess worker = pool.members().get(group.faultyWorker());
    long now = System.nanoTime();
    switch (fault.kind()) {
      case KILL -> worker.kill();
      case SHORT_STOP, LONG_STOP -> {
        WorkerProcess.Pause pause = worker.stop(fault.pauseMillis());
        pause.await();
        return pause.sinceNanos();
      }
      case OBSERVER_KILL -> pool.observer().kill();
      case OBSERVER_ABORT -> tell("abort", observer);
      case OBSERVER_DESTROY -> tell("destroy", observer);
      case STRANGERS ->
          Intruders.visit(pool.members().get(group.workers().get(0)).pid(), fault.variant(), dice);
      default -> throw new IllegalStateException("no way to bring about " + fault);
    }
    return now;
  }

  private void tell(String what, WorkerProcess.@Nullable Task observer) {
    if (observer == null) {
      throw new IllegalStateException("nobody observes the group");
    }
    pool.observer().begin(what, observer.id);
  }

  private static @Nullable Long awaitMoment(WorkerProcess.Task victim, int limitSeconds)
      throws InterruptedException {
    try {
      CompletableFuture.anyOf(victim.reached, victim.ended).get(limitSeconds, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      return null; // the member's outcome is judged elsewhere
    }
    return victim.reached.isDone() && !victim.reached.isCompletedExceptionally()
        ? victim.reached.join()
        : null;
  }
}
