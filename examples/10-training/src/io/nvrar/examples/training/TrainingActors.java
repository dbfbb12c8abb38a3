package io.nvrar.examples.training;

import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.GroupConfig;
import io.nvrar.PeerLostException;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayWorkerException;
import io.ray.api.function.RayFunc1;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The actors of a run and their group, in the driver. Closing it ends the actors. */
final class TrainingActors implements AutoCloseable {
  private static final String GROUP = "training";
  private static final int LOAD_MILLIS = 600_000;
  private static final int POLL_MILLIS = 1000;

  /** The group learns of a killed member within a second. */
  private static final long GROUP_NANOS = TimeUnit.SECONDS.toNanos(3);

  private static final int GROUP_POLL_MILLIS = 20;

  /** For the JVM, for Ray's classes and buffers, and for DJL. */
  private static final long BASE_MEBIBYTES = 512;

  private final RayActorGroup<TrainingActor> actors;
  private final RayCollectiveGroup group;

  private TrainingActors(RayActorGroup<TrainingActor> actors, RayCollectiveGroup group) {
    this.actors = actors;
    this.group = group;
  }

  /**
   * Starts the actors in the cluster of this driver.
   *
   * @param heapBytes the bytes of text and state that each actor's JVM handles at once
   */
  static TrainingActors start(int ranks, long heapBytes) {
    RayActorGroup<TrainingActor> actors = builder(heapBytes).create(ranks);
    try {
      // One actor first: the actors of a host would all unpack the same libraries.
      Ray.get(actors.handles().get(0).task(TrainingActor::loadEngine).remote(), LOAD_MILLIS);
      Ray.get(actors.callAll(TrainingActor::loadEngine), LOAD_MILLIS);
      GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
      return new TrainingActors(
          actors, RayCollectives.createGroup(GROUP, actors.handles(), config));
    } catch (RuntimeException | Error e) {
      try (actors) {
        throw e;
      }
    }
  }

  /**
   * One thread for each actor, since each has one CPU. All of PyTorch comes from Maven; DJL would
   * ask its own servers.
   */
  private static RayActorGroup.Builder<TrainingActor> builder(long heapBytes) {
    return RayActorGroup.builder(TrainingActor::new)
        .cpus(1)
        .heap(BASE_MEBIBYTES + (heapBytes >> 20) + "m")
        .jvmOption("-Dai.djl.pytorch.num_threads=1")
        .jvmOption("-Dai.djl.pytorch.num_interop_threads=1")
        .jvmOption("-Dai.djl.offline=true")
        .jvmOption("-DOPT_OUT_TRACKING=true");
  }

  /**
   * Starts a run or resumes one, on all actors.
   *
   * @return the number of trained values
   */
  long begin(TrainingPlan plan, byte[] text, int steps, byte[] state) {
    return results(
            actors.callAll(
                TrainingActor::begin,
                Ray.put(new TrainingActor.Beginning(GROUP, plan, text, steps, state))))
        .get(0);
  }

  /** Makes {@code count} steps; returns the mean loss of each. */
  float[] train(int count) {
    return results(actors.callAll(TrainingActor::train, count)).get(0);
  }

  double heldOutLoss() {
    return onAll(TrainingActor::heldOutLoss).get(0);
  }

  byte[] state() {
    return results(List.of(first().task(TrainingActor::state).remote())).get(0);
  }

  String sample(String prompt, int count) {
    return results(List.of(first().task(TrainingActor::sample, prompt, count).remote())).get(0);
  }

  private ActorHandle<TrainingActor> first() {
    return actors.handles().get(0);
  }

  private <R> List<R> onAll(RayFunc1<TrainingActor, R> method) {
    return results(actors.callAll(method));
  }

  /**
   * Waits for all calls. Throws when a call fails or the group fails. The group is polled because
   * Ray does not notice a stopped process.
   */
  private <R> List<R> results(List<ObjectRef<R>> calls) {
    while (true) {
      WaitResult<R> answers = Ray.wait(calls, calls.size(), POLL_MILLIS);
      List<R> results = Ray.get(answers.getReady());
      if (answers.getUnready().isEmpty()) {
        return results;
      }
      CollectiveException failure = group.failure();
      if (failure != null) {
        throw failure;
      }
    }
  }

  /**
   * Names the actor that was lost, if a call failed for that reason.
   *
   * @return null if no actor was lost, as after an exception of a living actor
   */
  @Nullable String lostActor(RuntimeException failed) {
    PeerLostException lost = null;
    for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
      if (cause instanceof PeerLostException named) {
        lost = named;
      }
    }
    if (lost == null && isLoss(failed)) {
      lost = lostPeer();
    }
    if (lost != null) {
      return String.format(Locale.ROOT, "rank %d (pid %d)", lost.lostRank(), lost.pid());
    }
    return isLoss(failed) ? "an actor" : null;
  }

  /** Whether a call failed because an actor was lost. */
  static boolean isLoss(RuntimeException failed) {
    for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
      if (cause instanceof PeerLostException
          || cause instanceof RayActorException
          || cause instanceof RayWorkerException
          || isUnmappedRayError(cause)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Ray's Java has no exception for some error types, such as a lost node or a process killed for
   * memory. This lesson treats all of them as a lost actor.
   */
  private static boolean isUnmappedRayError(Throwable failure) {
    return failure instanceof IllegalArgumentException
        && String.valueOf(failure.getMessage()).startsWith("Unrecognized metadata");
  }

  /** Ray may report a dead actor before the group does, and does not say which rank it was. */
  private @Nullable PeerLostException lostPeer() {
    long deadline = System.nanoTime() + GROUP_NANOS;
    try {
      while (group.failure() == null && System.nanoTime() < deadline) {
        Thread.sleep(GROUP_POLL_MILLIS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return group.failure() instanceof PeerLostException lost ? lost : null;
  }

  @Override
  public void close() {
    try (actors) {
      group.close();
    }
  }
}
