package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayException;
import io.ray.api.exception.RayTimeoutException;
import io.ray.api.function.RayFunc0;
import io.ray.api.function.RayFunc1;
import io.ray.api.function.RayFunc2;
import io.ray.api.function.RayFunc3;
import io.ray.api.placementgroup.PlacementGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;

/**
 * Actors of one class, side by side on one node, each in a process of its own with the JVM options
 * that Ray and this library need, and its own share of the node's resources. They live until {@link
 * #close}, or the end of the driver; a dead one is not restarted. Safe for use by many threads.
 *
 * @param <A> the actors' class
 */
public final class RayActorGroup<A extends CollectiveActor> implements AutoCloseable {

  private final PlacementGroup placement;

  /** Ray ends an actor when its last handle is garbage. */
  private final List<ActorHandle<A>> handles;

  private final AtomicBoolean closed = new AtomicBoolean();

  RayActorGroup(PlacementGroup placement, List<ActorHandle<A>> handles) {
    this.placement = placement;
    this.handles = List.copyOf(handles);
  }

  /**
   * Makes the actors and waits until their constructors have returned. On failure nothing stays
   * behind.
   *
   * @param constructor a constructor reference such as {@code Shard::new}; Ray takes no lambda
   * @param count the number of actors, 1 or more
   * @param options what each actor gets
   * @throws IllegalStateException if the cluster has no room for them, naming what is wanted and
   *     what is there; or if they have not started in {@link Options#timeout}
   * @throws CollectiveException if an actor died as it started
   */
  public static <A extends CollectiveActor> RayActorGroup<A> create(
      RayFunc0<A> constructor, int count, Options options) {
    if (count < 1) {
      throw new IllegalArgumentException("count is " + count + ", must be 1 or more");
    }
    long deadline = System.nanoTime() + options.timeout.toNanos();
    PlacementGroup placement = Placement.reserve(count, options.resources, options.timeout);
    List<ActorHandle<A>> handles = new ArrayList<>();
    try {
      for (int i = 0; i < count; i++) {
        handles.add(
            Ray.actor(constructor)
                .setPlacementGroup(placement, i)
                .setResources(options.resources)
                .setJvmOptions(options.jvmOptions)
                .setMaxRestarts(0)
                .remote());
      }
      awaitReady(handles, deadline, options.timeout);
      return new RayActorGroup<>(placement, handles);
    } catch (RuntimeException | Error e) {
      try {
        release(placement, handles);
      } catch (RuntimeException | Error failed) {
        e.addSuppressed(failed);
      }
      throw e;
    }
  }

  /** The actors; index is the rank that {@link RayCollectives#createGroup} gives them. */
  public List<ActorHandle<A>> handles() {
    return handles;
  }

  /** Starts a task on every actor; {@code Ray.get} of the result waits for all. */
  public <R> List<ObjectRef<R>> callAll(RayFunc1<A, R> method) {
    return onEach(actor -> actor.task(method).remote());
  }

  /** Starts a task with the same argument on every actor. */
  public <T0, R> List<ObjectRef<R>> callAll(RayFunc2<A, T0, R> method, T0 argument) {
    return onEach(actor -> actor.task(method, argument).remote());
  }

  /** Starts a task on every actor with an argument from the object store, sent once to a node. */
  public <T0, R> List<ObjectRef<R>> callAll(RayFunc2<A, T0, R> method, ObjectRef<T0> argument) {
    return onEach(actor -> actor.task(method, argument).remote());
  }

  /** Starts a task with the same two arguments on every actor. */
  public <T0, T1, R> List<ObjectRef<R>> callAll(
      RayFunc3<A, T0, T1, R> method, T0 first, T1 second) {
    return onEach(actor -> actor.task(method, first, second).remote());
  }

  private <R> List<ObjectRef<R>> onEach(Function<ActorHandle<A>, ObjectRef<R>> task) {
    return handles.stream().map(task).toList();
  }

  /**
   * Kills the actors and gives their room back. Idempotent; does not wait for their processes.
   * After {@code Ray.shutdown()}, which ends them too, it does nothing.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      release(placement, handles);
    }
  }

  private static <A extends CollectiveActor> void awaitReady(
      List<ActorHandle<A>> handles, long deadline, Duration timeout) {
    List<ObjectRef<Boolean>> ready = new ArrayList<>();
    for (ActorHandle<A> handle : handles) {
      ready.add(handle.task(A::nvrarReady).remote());
    }
    try {
      Ray.get(ready, Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
    } catch (RayTimeoutException e) {
      throw new IllegalStateException(
          "%d actors have not started within %d s".formatted(handles.size(), timeout.toSeconds()),
          e);
    } catch (RayException e) {
      if (e.getCause() instanceof RuntimeException fromConstructor) {
        throw fromConstructor;
      }
      throw new CollectiveException(
          e instanceof RayActorException && e.getCause() == null
              ? "an actor died as it started; the log of its worker in Ray's session directory says why (is the class in ray.job.code-search-path?)"
              : "an actor's constructor failed: " + e.getMessage(),
          e);
    }
  }

  private static void release(
      PlacementGroup placement, List<? extends ActorHandle<? extends CollectiveActor>> handles) {
    if (!Ray.isInitialized()) {
      return; // they have gone with their job
    }
    List<Runnable> steps = new ArrayList<>();
    if (!Ray.getRuntimeContext().isLocalMode()) {
      handles.forEach(handle -> steps.add(handle::kill));
    }
    steps.add(() -> PlacementGroups.removePlacementGroup(placement.getId()));
    runAll(steps);
  }

  /** Runs every step, then throws what the first that failed threw, the others' suppressed. */
  static void runAll(List<Runnable> steps) {
    Throwable first = null;
    for (Runnable step : steps) {
      try {
        step.run();
      } catch (RuntimeException | Error e) {
        if (first == null) {
          first = e;
        } else if (first != e) {
          first.addSuppressed(e);
        }
      }
    }
    if (first instanceof Error error) {
      throw error;
    }
    if (first instanceof RuntimeException unchecked) {
      throw unchecked;
    }
  }

  /** What each actor of a {@link RayActorGroup} gets. Immutable; the setters return a copy. */
  public static final class Options {

    /** Default of {@link #timeout(Duration)}. */
    public static final Duration TIMEOUT_DEFAULT = Duration.ofSeconds(60);

    /** Ray's serializer opens six packages; without them an exception ends the actor's process. */
    private static final List<String> JVM_OPTIONS =
        List.of(
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-opens=java.base/java.math=ALL-UNNAMED",
            "--add-opens=java.base/java.util=ALL-UNNAMED",
            "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
            "--add-opens=java.base/java.net=ALL-UNNAMED",
            "--add-opens=java.base/java.text=ALL-UNNAMED",
            "--enable-native-access=ALL-UNNAMED",
            // Kryo without sun.misc.Unsafe, which newer JDKs warn about.
            "-Dkryo.unsafe=false",
            // Several JVMs share the node's cores: the fewest collector threads, the fastest start.
            "-XX:+UseSerialGC");

    private final Map<String, Double> resources;
    private final List<String> jvmOptions;
    private final Duration timeout;

    private Options(Map<String, Double> resources, List<String> jvmOptions, Duration timeout) {
      this.resources = resources;
      this.jvmOptions = jvmOptions;
      this.timeout = timeout;
    }

    /**
     * This many GPUs for each actor, more than 0. Its member of a group is on the first of them;
     * two actors that share one cannot be in one group there.
     */
    public static Options gpus(double count) {
      return new Options(Map.of(), JVM_OPTIONS, TIMEOUT_DEFAULT).resource("GPU", count);
    }

    /**
     * This many CPUs and no GPU for each actor, more than 0. Their groups run on the CPU, unless
     * {@link io.nvrar.GroupConfig#backend()} says otherwise.
     */
    public static Options cpus(double count) {
      return new Options(Map.of(), JVM_OPTIONS, TIMEOUT_DEFAULT).resource("CPU", count);
    }

    /** Also this much of a resource of Ray's for each actor, more than 0. */
    public Options resource(String name, double amount) {
      if (!(amount > 0) || Double.isInfinite(amount)) {
        throw new IllegalArgumentException(
            "each actor was to get " + amount + " " + name + ", must be more than 0");
      }
      Map<String, Double> more = new TreeMap<>(resources);
      more.put(name, amount);
      return new Options(more, jvmOptions, timeout);
    }

    /** The largest heap of each actor's JVM, as {@code -Xmx} takes it, such as {@code "2g"}. */
    public Options heap(String size) {
      if (!size.matches("[1-9][0-9]*[kKmMgG]?")) {
        throw new IllegalArgumentException(
            "heap is '" + size + "', must be a number of bytes or end in k, m or g, such as 2g");
      }
      return jvmOption("-Xmx" + size);
    }

    /** One more option for each actor's JVM, after those that this library needs. */
    public Options jvmOption(String option) {
      List<String> more = new ArrayList<>(jvmOptions);
      more.add(Objects.requireNonNull(option, "option"));
      return new Options(resources, List.copyOf(more), timeout);
    }

    /** How long creating the actors waits for room and for their start; 1 s to 1 day. */
    public Options timeout(Duration value) {
      if (value.compareTo(Duration.ofSeconds(1)) < 0 || value.compareTo(Duration.ofDays(1)) > 0) {
        throw new IllegalArgumentException("timeout is " + value + ", must be 1 s to 1 day");
      }
      return new Options(resources, jvmOptions, value);
    }
  }
}
