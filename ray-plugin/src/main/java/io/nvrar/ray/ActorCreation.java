package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import io.ray.api.call.ActorCreator;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayException;
import io.ray.api.placementgroup.PlacementGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/** Creates the actors of a {@link RayActorGroup} and waits for their start. */
final class ActorCreation {

  private ActorCreation() {}

  /** {@link RayActorGroup.Builder#create}. */
  static <A extends CollectiveActor> RayActorGroup<A> create(
      IntFunction<ActorCreator<A>> creator, int count, ActorSettings settings) {
    checkCount(count);
    settings.check(count);
    long deadline = System.nanoTime() + settings.timeout().toNanos();
    String name = settings.name();
    if (name != null) {
      NamedActors.awaitFree(name, count, deadline);
    }
    PlacementGroup given = settings.placement();
    Placement.Room room = null;
    Map<String, Double> resources = settings.resources();
    if (given == null && settings.detached()) {
      resources = Placement.onOneNode(count, resources, left(deadline));
    } else if (given == null) {
      room = Placement.reserve(count, resources, settings.nodes(), left(deadline));
    }
    PlacementGroup reserved = room == null ? null : room.group();
    PlacementGroup placement = given == null ? reserved : given;
    List<ActorHandle<A>> handles = new ArrayList<>();
    try {
      for (int rank = 0; rank < count; rank++) {
        ActorCreator<A> actor = settings.applyTo(creator.apply(rank), rank);
        actor.setResources(resources);
        if (placement != null) {
          actor.setPlacementGroup(placement, room == null ? rank : room.division().bundleOf(rank));
        }
        handles.add(start(actor, name, rank));
      }
      awaitReady(handles, left(deadline), settings.timeout());
      return new RayActorGroup<>(reserved, !settings.detached(), handles);
    } catch (RuntimeException | Error e) {
      try {
        RayActorGroup.release(reserved, handles);
      } catch (RuntimeException | Error failed) {
        e.addSuppressed(failed);
      }
      throw e;
    }
  }

  static void checkCount(int count) {
    if (count < 1) {
      throw new IllegalArgumentException("count is " + count + ", must be 1 or more");
    }
  }

  private static <A> ActorHandle<A> start(ActorCreator<A> actor, @Nullable String name, int rank) {
    try {
      return actor.remote();
    } catch (IllegalArgumentException e) {
      if (name != null && NamedActors.get(NamedActors.name(name, rank)).isPresent()) {
        throw NamedActors.taken(name, rank, e); // another driver created it since awaitFree
      }
      throw e;
    }
  }

  private static <A extends CollectiveActor> void awaitReady(
      List<ActorHandle<A>> handles, Duration left, Duration timeout) {
    List<ObjectRef<Boolean>> starting = new ArrayList<>();
    for (ActorHandle<A> handle : handles) {
      starting.add(handle.task(A::nvrarReady).remote());
    }
    long deadline = System.nanoTime() + left.toNanos();
    while (!starting.isEmpty()) {
      WaitResult<Boolean> result = DriverWaits.forOne(starting, deadline, "started actors");
      if (result.getReady().isEmpty()) {
        throw new IllegalStateException(
            String.format(
                Locale.ROOT,
                "%d actors have not started within %s",
                handles.size(),
                within(left, timeout)));
      }
      try {
        Ray.get(result.getReady());
      } catch (RayException e) {
        throw startFailure(e);
      }
      starting = result.getUnready();
    }
  }

  /** What the actor's constructor has thrown, or a sentence of our own. */
  static RuntimeException startFailure(RayException thrown) {
    Throwable cause = CreationFailures.cause(thrown);
    if (cause instanceof RuntimeException fromConstructor && !(cause instanceof RayException)) {
      return fromConstructor;
    }
    return new CollectiveException(
        cause instanceof RayActorException
            ? "an actor died as it started; the log of its worker in Ray's session directory says why (is the class in ray.job.code-search-path?)"
            : "an actor's constructor failed: " + cause.getMessage(),
        thrown);
  }

  /** How long the start may take, and why if that is less than the timeout. */
  static String within(Duration left, Duration timeout) {
    long seconds = Placement.seconds(left);
    long all = Placement.seconds(timeout);
    return seconds == all
        ? all + " s"
        : String.format(
            Locale.ROOT, "%d s, which free names and room for them had left of %d s", seconds, all);
  }

  /** At least a second, so that room that is found at the last moment is of use. */
  private static Duration left(long deadline) {
    return Duration.ofNanos(Math.max(1_000_000_000, deadline - System.nanoTime()));
  }
}
