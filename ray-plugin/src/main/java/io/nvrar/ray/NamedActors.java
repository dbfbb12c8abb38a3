package io.nvrar.ray;

import io.ray.api.ActorHandle;
import io.ray.api.BaseActorHandle;
import io.ray.api.Ray;
import io.ray.api.id.JobId;
import io.ray.api.runtimecontext.ActorState;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Looks up the actors of a named {@link RayActorGroup} and waits for their names to become free.
 */
final class NamedActors {

  /** How long Ray may still list an actor as alive after a driver has killed it. */
  private static final long KILLED_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  private static final long POLL_MILLIS = 10;
  private static final long MOST_POLL_MILLIS = 500;

  /**
   * Handles that were looked up of this job's own actors. They are kept alive on purpose: Ray does
   * not count such a handle when it is created, but does when it becomes garbage, and so would end
   * an actor that is in use.
   */
  private static final Queue<BaseActorHandle> FOUND = new ConcurrentLinkedQueue<>();

  private NamedActors() {}

  /** The actor of a name; it may be dead without Ray knowing yet. */
  static <T extends BaseActorHandle> Optional<T> get(String name) {
    JobId job = Ray.getRuntimeContext().getCurrentJobId();
    return DriverWaits.on(
        () -> {
          // Kept here, because an interrupt may have ended the wait for it.
          Optional<T> actor = Ray.getActor(name);
          actor.filter(found -> found.getId().getJobId().equals(job)).ifPresent(FOUND::add);
          return actor;
        },
        "looked up actor '" + name + "'");
  }

  /** Drops the kept handles of an actor that is known to have ended. */
  static void forget(BaseActorHandle actor) {
    FOUND.removeIf(found -> found.getId().equals(actor.getId()));
  }

  static String name(String group, int rank) {
    return group + "-" + rank;
  }

  /**
   * Waits until no actor has any of the names. Ray frees the names of killed actors with a delay,
   * and a driver that has looked up an actor caches its name for a while longer.
   *
   * @throws IllegalStateException if a live actor has one of the names, or if a dead one still has
   *     it at the deadline
   */
  static void awaitFree(String group, int count, long deadline) {
    for (int rank = 0; rank < count; rank++) {
      long patience = System.nanoTime() + KILLED_NANOS;
      long pollMillis = POLL_MILLIS;
      Optional<BaseActorHandle> holder = get(name(group, rank));
      while (holder.isPresent()) {
        boolean isDead = isDead(holder.get());
        if (isDead) {
          forget(holder.get());
        }
        if (System.nanoTime() - (isDead ? deadline : patience) >= 0) {
          throw isDead ? held(group, rank) : taken(group, rank, null);
        }
        sleep(group, pollMillis);
        pollMillis = Math.min(2 * pollMillis, MOST_POLL_MILLIS);
        if (isDead) {
          holder = get(name(group, rank));
        }
      }
    }
  }

  private static boolean isDead(BaseActorHandle actor) {
    return !Ray.getRuntimeContext().isLocalMode()
        && DriverWaits.on(
                () -> Ray.getRuntimeContext().getAllActorInfo(), "looked whether an actor is dead")
            .stream()
            .anyMatch(info -> info.actorId.equals(actor.getId()) && info.state == ActorState.DEAD);
  }

  private static void sleep(String group, long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw DriverWaits.interrupted("waited for the name '" + group + "'");
    }
  }

  private static IllegalStateException held(String group, int rank) {
    return new IllegalStateException(
        String.format(
            Locale.ROOT,
            "Ray still holds the name '%s' in %s for an actor that is dead: try again later, or take another name than '%s'",
            name(group, rank),
            namespace(),
            group));
  }

  static IllegalStateException taken(String group, int rank, @Nullable Throwable cause) {
    return new IllegalStateException(
        String.format(
            Locale.ROOT,
            "there is already an actor named '%s' in %s: find these actors, kill them, or take another name than '%s'",
            name(group, rank),
            namespace(),
            group),
        cause);
  }

  static <A extends CollectiveActor> List<ActorHandle<A>> find(String group, int count) {
    return IntStream.range(0, count)
        .mapToObj(
            rank -> {
              Optional<ActorHandle<A>> handle = get(name(group, rank));
              return handle.orElseThrow(
                  () ->
                      new IllegalStateException(
                          String.format(
                              Locale.ROOT,
                              "there is no actor named '%s' in %s: drivers find each other's actors under one ray.job.namespace",
                              name(group, rank),
                              namespace())));
            })
        .toList();
  }

  private static String namespace() {
    String namespace = Ray.getRuntimeContext().getNamespace();
    return namespace == null ? "this process" : "namespace '" + namespace + "'"; // in local mode
  }
}
