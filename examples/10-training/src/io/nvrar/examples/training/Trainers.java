package io.nvrar.examples.training;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.exception.RayException;
import io.ray.api.function.RayFunc1;
import java.util.ArrayList;
import java.util.List;

/** The actors of a run, and their group, in which fresh actors take the places of lost ones. */
final class Trainers implements AutoCloseable {
  private static final String GROUP = "training";
  private static final int ANSWER_MILLIS = 20_000;

  // One thread for each actor, since each has one CPU. All of PyTorch comes from Maven; DJL would
  // ask
  // its own servers.
  private static final RayActorGroup.Options OPTIONS =
      RayActorGroup.Options.cpus(1)
          .heap("1g")
          .jvmOption("-Dai.djl.pytorch.num_threads=1")
          .jvmOption("-Dai.djl.pytorch.num_interop_threads=1")
          .jvmOption("-Dai.djl.offline=true")
          .jvmOption("-DOPT_OUT_TRACKING=true");

  private final List<RayActorGroup<TrainingActor>> started = new ArrayList<>();
  private final List<ActorHandle<TrainingActor>> members = new ArrayList<>();
  private RayCollectiveGroup group;

  private Trainers(int ranks) {
    RayActorGroup<TrainingActor> actors = RayActorGroup.create(TrainingActor::new, ranks, OPTIONS);
    started.add(actors);
    members.addAll(actors.handles());
    try {
      group = makeGroup();
    } catch (RuntimeException | Error e) {
      try (actors) {
        throw e;
      }
    }
  }

  /** Starts so many actors, in the cluster that this process is a driver of. */
  static Trainers start(int ranks) {
    return new Trainers(ranks);
  }

  private RayCollectiveGroup makeGroup() {
    // One at first: those of a host would all unpack the same libraries.
    Ray.get(members.get(0).task(TrainingActor::loadEngine).remote());
    onAll(TrainingActor::loadEngine);
    return RayCollectives.createGroup(
        GROUP, members, GroupConfig.builder().backend(Backend.CPU).build());
  }

  /**
   * Begins or goes on.
   *
   * @return the number of trained values
   */
  long begin(TrainingPlan plan, byte[] text, int steps, byte[] state) {
    ObjectRef<TrainingActor.Beginning> beginning =
        Ray.put(new TrainingActor.Beginning(GROUP, plan, text, steps, state));
    List<ObjectRef<Long>> calls = new ArrayList<>();
    for (ActorHandle<TrainingActor> member : members) {
      calls.add(member.task(TrainingActor::begin, beginning).remote());
    }
    return Ray.get(calls).get(0);
  }

  /** The losses of so many steps. */
  float[] train(int count) {
    List<ObjectRef<float[]>> calls = new ArrayList<>();
    for (ActorHandle<TrainingActor> member : members) {
      calls.add(member.task(TrainingActor::train, count).remote());
    }
    return Ray.get(calls).get(0);
  }

  double heldOutLoss() {
    return onAll(TrainingActor::heldOutLoss).get(0);
  }

  byte[] state() {
    return Ray.get(members.get(0).task(TrainingActor::state).remote());
  }

  String sample(String prompt, int count) {
    return Ray.get(members.get(0).task(TrainingActor::sample, prompt, count).remote());
  }

  private <R> List<R> onAll(RayFunc1<TrainingActor, R> method) {
    return Ray.get(members.stream().map(member -> member.task(method).remote()).toList());
  }

  /**
   * Replaces the actors that have died, and makes a new group of all.
   *
   * @return the ranks whose actors are fresh; empty if none has died, and then nothing was done
   */
  List<Integer> replaceLost() {
    List<Integer> lost = new ArrayList<>();
    for (int rank = 0; rank < members.size(); rank++) {
      try {
        Ray.get(members.get(rank).task(TrainingActor::isAlive).remote(), ANSWER_MILLIS);
      } catch (RayException e) {
        lost.add(rank);
      }
    }
    if (!lost.isEmpty()) {
      group.close();
      for (int rank : lost) {
        members.get(rank).kill(); // it may only have been cut off
        RayActorGroup<TrainingActor> fresh = RayActorGroup.create(TrainingActor::new, 1, OPTIONS);
        started.add(fresh);
        members.set(rank, fresh.handles().get(0));
      }
      group = makeGroup();
    }
    return lost;
  }

  @Override
  public void close() {
    try {
      group.close();
    } finally {
      started.forEach(RayActorGroup::close);
    }
  }
}
