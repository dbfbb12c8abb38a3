package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Uninterruptibly;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import io.ray.api.id.ActorId;
import io.ray.api.runtimecontext.ActorState;
import io.ray.api.runtimecontext.RuntimeContext;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is wrong with a driver although its groups work, and what Ray knows of an actor but its API
 * does not tell. The latter is read from Ray's own classes by reflection: a version of Ray without
 * these members is no error, the checks then find nothing.
 */
final class DriverChecks {
  private static final Logger LOG = LoggerFactory.getLogger(DriverChecks.class);

  private static final String OPENS = "--add-opens=java.base/";
  private static final AtomicBoolean ARE_OPENS_CHECKED = new AtomicBoolean();
  private static final AtomicBoolean IS_HEAD_CHECKED = new AtomicBoolean();

  /** A healthy GCS takes some milliseconds. */
  private static final Duration LOOK_UP_LIMIT = Duration.ofSeconds(2);

  private DriverChecks() {}

  /** Warns, once in this process, of each thing that is wrong with it. */
  static void warn() {
    if (!ARE_OPENS_CHECKED.getAndSet(true)) {
      String missing = missingOpens(Ray.class.getModule());
      if (!missing.isEmpty()) {
        LOG.warn(
            "This driver's JVM lacks {}: an exception of an actor arrives here as an InaccessibleObjectException, without its own message. docs/reference/configuration.md lists the options that Ray needs.",
            missing);
      }
    }
    if (startedHead(Ray.internal()) && !IS_HEAD_CHECKED.getAndSet(true)) {
      LOG.warn(
          "Ray.init() had no address and has started a Ray head, so Ray.shutdown() will run `ray stop --force`, which ends every Ray of this host. Start a head by `ray start`, and set ray.address to its HOST:PORT before Ray.init().");
    }
  }

  /** The options that open to a module what Ray's serializer needs; "" if all is open. */
  static String missingOpens(Module to) {
    return ActorJvm.REQUIRED.stream()
        .filter(option -> option.startsWith(OPENS))
        .filter(option -> !Object.class.getModule().isOpen(opened(option), to))
        .collect(Collectors.joining(" "));
  }

  private static String opened(String option) {
    return option.substring(OPENS.length(), option.indexOf('=', OPENS.length()));
  }

  /** Whether Ray has started a head for this driver, which it stops with all others at the end. */
  static boolean startedHead(Object runtime) {
    try {
      Field started = runtime.getClass().getDeclaredField("startRayHead");
      started.setAccessible(true);
      return started.getBoolean(runtime);
    } catch (ReflectiveOperationException | RuntimeException e) {
      LOG.debug("This Ray does not tell whether it has started a head", e);
      return false;
    }
  }

  /**
   * Checks that the actors' classes can be members. Ray's workers end without a reason if a method
   * is called that the class does not have, and raw types let such a handle come here.
   *
   * @throws IllegalArgumentException if a class cannot
   */
  static void requireCollective(
      String group, List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder) {
    for (int rank = 0; rank < actorsInRankOrder.size(); rank++) {
      Class<?> type =
          classOf(actorsInRankOrder.get(rank), Thread.currentThread().getContextClassLoader());
      if (type != null && !CollectiveActor.class.isAssignableFrom(type)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "rank %d of group '%s' is an actor of %s, which does not implement CollectiveActor",
                rank,
                group,
                type.getName()));
      }
    }
  }

  /**
   * Checks that an actor's class is a given one, as far as the class is known.
   *
   * @param name the actor's name, for the message
   * @throws IllegalArgumentException if the actor is known to be of another class
   */
  static void requireType(Class<?> wanted, String name, ActorHandle<?> actor) {
    Class<?> type = classOf(actor, wanted.getClassLoader());
    if (type != null && !wanted.isAssignableFrom(type)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "actor '%s' is of %s, not of %s",
              name,
              type.getName(),
              wanted.getName()));
    }
  }

  /**
   * Checks that no actor is known to be dead: its tasks would fail as those of one that dies while
   * it joins. A cluster that does not tell within 2 s is no error here.
   *
   * @throws CollectiveException if one is
   */
  static void requireAlive(
      String group, List<? extends ActorHandle<? extends CollectiveActor>> actorsInRankOrder) {
    RuntimeContext context = Ray.getRuntimeContext();
    if (context.isLocalMode()) {
      return;
    }
    Set<ActorId> dead = dead(context, actorsInRankOrder);
    for (int rank = 0; rank < actorsInRankOrder.size(); rank++) {
      if (dead.contains(actorsInRankOrder.get(rank).getId())) {
        throw new CollectiveException(
            String.format(
                Locale.ROOT,
                "the actor of rank %d was dead before group '%s' was created; put a new actor in its place",
                rank,
                group));
      }
    }
  }

  /** The actors of the jobs that are known to be dead; none if the GCS does not tell. */
  private static Set<ActorId> dead(
      RuntimeContext context, List<? extends ActorHandle<? extends CollectiveActor>> ofJobs) {
    AtomicReference<Set<ActorId>> dead = new AtomicReference<>(Set.of());
    try {
      boolean told =
          Uninterruptibly.run(
              "nvrar-dead-actors",
              () ->
                  dead.set(
                      ofJobs.stream()
                          .map(actor -> actor.getId().getJobId())
                          .distinct()
                          .flatMap(job -> context.getAllActorInfo(job, ActorState.DEAD).stream())
                          .map(info -> info.actorId)
                          .collect(Collectors.toSet())),
              LOOK_UP_LIMIT);
      if (!told) {
        LOG.debug("Ray has not told within {} which actors are dead", LOOK_UP_LIMIT);
      }
    } catch (RuntimeException e) {
      LOG.debug("Ray does not tell which actors are dead", e);
    }
    return Objects.requireNonNull(dead.get());
  }

  /** The class of an actor, if Ray tells it and the loader finds it. */
  private static @Nullable Class<?> classOf(Object actor, @Nullable ClassLoader loader) {
    try {
      for (Class<?> type = actor.getClass(); type != null; type = type.getSuperclass()) {
        if (type.getName().equals("io.ray.runtime.actor.NativeActorHandle")) {
          Method descriptor =
              type.getDeclaredMethod("nativeGetActorCreationTaskFunctionDescriptor", byte[].class);
          Field id = type.getDeclaredField("actorId");
          descriptor.setAccessible(true);
          id.setAccessible(true);
          List<?> names = (List<?>) descriptor.invoke(null, id.get(actor));
          return Class.forName((String) names.get(0), false, loader);
        }
      }
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      LOG.debug("The class of an actor is not known here", e);
    }
    return null;
  }
}
