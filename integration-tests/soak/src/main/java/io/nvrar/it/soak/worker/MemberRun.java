package io.nvrar.it.soak.worker;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.ReduceOp;
import io.nvrar.it.soak.call.CallSpec;
import io.nvrar.it.soak.call.CheckedCall;
import io.nvrar.it.soak.call.Shape;
import io.nvrar.it.soak.call.WrongResultException;
import io.nvrar.it.soak.plan.Fault;
import io.nvrar.it.soak.plan.GroupPlan;
import io.nvrar.it.soak.plan.Phase;
import io.nvrar.it.soak.plan.SplitPlan;
import io.nvrar.standalone.GroupTicket;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The run of one rank in a group: it joins, makes the calls, checks every result, and closes. If
 * this rank causes the group's fault itself, it does so here; if the controller causes it, this
 * class reports when its moment has come.
 */
final class MemberRun {
  private static final long ACCOMPLICE_MILLIS = TimeUnit.SECONDS.toMillis(60);

  private final GroupPlan plan;
  private final int rank;
  private final Joiner joiner;
  private final Listener listener;
  private final Fault fault;

  private Phase phase = Phase.CREATE;
  private int step;
  private @Nullable Thread accomplice;
  private @Nullable LinkCut cut;

  /** Joins a group; tests may pass a faulty one. */
  public interface Joiner {
    CollectiveGroup join(GroupTicket ticket, int rank, int deviceOrdinal);
  }

  /** Receives the events of the run. */
  interface Listener {
    /** The moment of the fault is reached. */
    void reached(long atNanos);

    /** A call has given the right result. */
    void verified(CallSpec call);
  }

  MemberRun(GroupPlan plan, int rank, Joiner joiner, Listener listener) {
    this.plan = plan;
    this.rank = rank;
    this.joiner = joiner;
    this.listener = listener;
    // The fault of another rank does not concern this one.
    fault = plan.fault().rank() == rank ? plan.fault() : Fault.NONE;
  }

  Outcome run(GroupTicket ticket) {
    try {
      announce();
      int gpu = plan.hosts().get(rank); // ignored unless the group is on GPUs
      return run(joiner.join(ticket, rank, gpu));
    } catch (RuntimeException | Error e) {
      return Outcome.thrown(e, phase, step, System.nanoTime());
    } finally {
      awaitAccomplice();
    }
  }

  private Outcome run(CollectiveGroup group) {
    Outcome outcome;
    try {
      phase = Phase.CALL;
      cut = fault.kind() == Fault.Kind.CUT_LINK ? cutOf(group) : null;
      callAll(group);
      phase = Phase.CLOSE;
      step = 0;
      announce();
      outcome = Outcome.complete(plan.calls().size(), System.nanoTime());
    } catch (RuntimeException | Error e) {
      outcome = Outcome.thrown(e, phase, step, System.nanoTime());
    }
    group.close();
    return outcome.closed(System.nanoTime());
  }

  private void callAll(CollectiveGroup group) {
    for (step = 0; step < plan.calls().size(); step++) {
      if (plan.split() != null && plan.split().step() == step) {
        split(group, plan.split());
      }
      CallSpec call = plan.calls().get(step);
      if (!fault.isBefore(Phase.CALL, step)) {
        call(group, call);
        continue;
      }
      announce();
      switch (fault.kind()) {
        case DELAY -> {
          LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(fault.pauseMillis()));
          call(group, call);
        }
        case BAD_ARGUMENT -> {
          refuse(group);
          call(group, call);
        }
        case DIFFERENT_CALL -> call(group, call.differing(fault.variant(), plan.worldSize()));
        case SWAPPED_CALLS -> {
          call(group, plan.calls().get(step + 1));
          call(group, call);
          step++;
        }
        case MISSING_CALL -> {}
        case ABORT -> {
          accompany(() -> group.abort("soak wants it"));
          call(group, call);
        }
        case EARLY_CLOSE -> {
          return;
        }
        case CLOSE_IN_CALL -> {
          accompany(group::close);
          call(group, call);
        }
        default -> call(group, call);
      }
    }
  }

  private void call(CollectiveGroup group, CallSpec call) {
    call(group, call, plan.shape());
  }

  private void call(CollectiveGroup group, CallSpec call, Shape shape) {
    CheckedCall.run(group, call, shape);
    listener.verified(call);
  }

  private void split(CollectiveGroup group, SplitPlan how) {
    phase = Phase.SPLIT;
    int at = step;
    step = 0;
    announce();
    int color = how.colors().get(rank);
    try (CollectiveGroup child = group.split(color, how.keys().get(rank)).orElse(null)) {
      List<Integer> members = color < 0 ? List.of() : how.groupOf(rank, plan.hosts());
      if (child == null
          ? !members.isEmpty()
          : child.rank() != members.indexOf(rank) || child.worldSize() != members.size()) {
        throw new WrongResultException(
            String.format(
                Locale.ROOT,
                "split gave rank %d the group %s, must give that of ranks %s",
                rank,
                child,
                members));
      }
      for (; child != null && step < how.calls(); step++) {
        Shape shape = plan.shapeOfSplit(members, child.config().gpusPerNode());
        call(child, how.call(color, step, shape, child.backend()), shape);
      }
    }
    phase = Phase.CALL;
    step = at;
  }

  private void announce() {
    if (fault.kind() == Fault.Kind.NONE || !fault.isBefore(phase, step)) {
      return;
    }
    if (fault.kind() == Fault.Kind.CUT_LINK) {
      accompany(this::cutLink);
    } else {
      listener.reached(System.nanoTime());
    }
  }

  private LinkCut cutOf(CollectiveGroup group) {
    String link = group.health().ranks().get(fault.peer()).link();
    return LinkCut.of(String.valueOf(link), fault.variant());
  }

  /** The moment of this fault is when the link breaks; there is none if it is closed already. */
  private void cutLink() {
    long now = System.nanoTime();
    if (cut != null && cut.cut()) {
      listener.reached(now);
    }
  }

  /** Makes a call that every group must refuse without being affected. */
  private void refuse(CollectiveGroup group) {
    int complaints = 0;
    try (DeviceBuffer two = group.device().allocate(DataType.FLOAT32, 2);
        DeviceBuffer three = group.device().allocate(DataType.FLOAT32, 3)) {
      Runnable[] calls = {
        () -> group.allReduce(two, three, ReduceOp.SUM, group.stream()),
        () -> group.broadcast(two, plan.worldSize()),
        () -> group.allGather(three, three.slice(0, 1), group.stream()),
      };
      for (Runnable call : calls) {
        try {
          call.run();
        } catch (IllegalArgumentException e) {
          complaints++;
        }
      }
      if (complaints != calls.length) {
        throw new WrongResultException(
            String.format(
                Locale.ROOT,
                "%d of %d calls with bad arguments were refused",
                complaints,
                calls.length));
      }
    }
  }

  private void accompany(Runnable work) {
    Thread thread =
        new Thread(
            () -> {
              LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(fault.delayMicros()));
              work.run();
            },
            "soak-accomplice");
    accomplice = thread;
    thread.start();
  }

  private void awaitAccomplice() {
    Thread thread = accomplice;
    if (thread == null) {
      return;
    }
    try {
      thread.join(ACCOMPLICE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
