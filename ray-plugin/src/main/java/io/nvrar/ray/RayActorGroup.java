package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.internal.device.cuda.NearCores;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.call.ActorCreator;
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
import java.util.function.Function;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Actors of one class on one node, or evenly on several; {@link #builder} creates them. Each has a
 * process of its own, with the JVM options that Ray and this library need, and its own share of its
 * node's resources. The actors live until {@link #close} or the end of the driver; {@link
 * Builder#detached() detached} actors live until {@link #kill}. A dead actor is not restarted.
 * Thread-safe.
 *
 * @param <A> the actors' class
 */
public final class RayActorGroup<A extends CollectiveActor> implements AutoCloseable {

  /**
   * The placement group that is removed with the actors; null if it is the user's, or there is
   * none.
   */
  private final @Nullable PlacementGroup placement;

  /** Whether {@link #close} kills the actors. */
  private final boolean owned;

  /** Kept because Ray ends an actor when its last handle becomes garbage. */
  private final List<ActorHandle<A>> handles;

  // Guarded by this.
  private boolean killed;

  RayActorGroup(@Nullable PlacementGroup placement, boolean owned, List<ActorHandle<A>> handles) {
    this.placement = placement;
    this.owned = owned;
    this.handles = List.copyOf(handles);
  }

  /**
   * Begins the creation of actors of one class.
   *
   * <pre>{@code
   * try (RayActorGroup<Shard> shards = RayActorGroup.builder(Shard::new).gpus(1).create(4)) {
   *   ...
   * }
   * }</pre>
   *
   * @param constructor a constructor reference such as {@code Shard::new}; Ray does not accept a
   *     lambda
   */
  public static <A extends CollectiveActor> Builder<A> builder(RayFunc0<A> constructor) {
    return builderByRank(rank -> Ray.actor(constructor));
  }

  /** {@link #builder(RayFunc0)} for a constructor with one parameter. */
  public static <T0, A extends CollectiveActor> Builder<A> builder(
      RayFunc1<T0, A> constructor, T0 argument) {
    return builderByRank(rank -> Ray.actor(constructor, argument));
  }

  /** {@link #builder(RayFunc0)} for a constructor with two parameters. */
  public static <T0, T1, A extends CollectiveActor> Builder<A> builder(
      RayFunc2<T0, T1, A> constructor, T0 first, T1 second) {
    return builderByRank(rank -> Ray.actor(constructor, first, second));
  }

  /** {@link #builder(RayFunc0)} for a constructor with three parameters. */
  public static <T0, T1, T2, A extends CollectiveActor> Builder<A> builder(
      RayFunc3<T0, T1, T2, A> constructor, T0 first, T1 second, T2 third) {
    return builderByRank(rank -> Ray.actor(constructor, first, second, third));
  }

  /**
   * {@link #builder(RayFunc0)} for actors that differ, for example by their rank:
   *
   * <pre>{@code
   * RayActorGroup.builderByRank(rank -> Ray.actor(Shard::new, rank, model)).gpus(1).create(4)
   * }</pre>
   *
   * @param creator called by {@link Builder#create} in this process, once for each rank. It may set
   *     what {@link Builder} lacks, such as {@code setMaxConcurrency}. The builder overrides the
   *     JVM options, the restarts and the resources that it names; other resources that the creator
   *     requests are not reserved. The builder overrides the name and the lifetime only if it sets
   *     them. It overrides the placement group, except for detached actors ({@link
   *     Builder#detached}) without a {@link Builder#placementGroup}
   */
  public static <A extends CollectiveActor> Builder<A> builderByRank(
      IntFunction<ActorCreator<A>> creator) {
    return new Builder<>(creator);
  }

  /**
   * Finds the actors that this or another driver created under a {@link Builder#name name}. {@link
   * #close} of the result leaves them alive.
   *
   * @param type the actors' class, or a superclass or interface of it. It is compared with the
   *     actors' class where Ray tells that class and this process has it; otherwise it is not
   *     checked, and only names the type of the result
   * @param name the value that {@link Builder#name} was called with
   * @param count the number of actors, as they were created
   * @throws IllegalArgumentException if one of them is known to be of another class
   * @throws IllegalStateException if one of them does not exist in this driver's namespace
   */
  public static <A extends CollectiveActor> RayActorGroup<A> find(
      Class<A> type, String name, int count) {
    Objects.requireNonNull(type, "type");
    ActorCreation.checkCount(count);
    List<ActorHandle<A>> handles = NamedActors.find(name, count);
    for (int rank = 0; rank < count; rank++) {
      DriverChecks.requireType(type, NamedActors.name(name, rank), handles.get(rank));
    }
    return new RayActorGroup<>(null, false, handles);
  }

  /** The actors; an actor's index is the rank that {@link RayCollectives#createGroup} gives it. */
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

  /**
   * Starts a task on every actor with an argument from the object store, which Ray sends once to
   * each node.
   */
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
   * Kills the actors and releases their resources. Detached actors, and actors from {@link #find},
   * are left alive. Idempotent; does not wait for their processes to end. After {@code
   * Ray.shutdown()}, which also ends the actors, it does nothing.
   */
  @Override
  public void close() {
    if (owned) {
      kill();
    }
  }

  /**
   * Kills the actors, including those that {@link #close} leaves alive, and releases their
   * resources. Idempotent; may be called again after a failure; does not wait for their processes
   * to end. An interrupt does not shorten it.
   *
   * @throws IllegalStateException if Ray is not initialised in this process and the actors are
   *     detached or come from {@link #find}
   */
  public synchronized void kill() {
    if (killed) {
      return;
    }
    if (!owned && !Ray.isInitialized()) {
      throw new IllegalStateException(
          "these actors outlive their driver, and only a driver of their cluster can kill them: Ray is not initialised here");
    }
    release(placement, handles);
    killed = true;
  }

  static void release(
      @Nullable PlacementGroup placement,
      List<? extends ActorHandle<? extends CollectiveActor>> handles) {
    if (!Ray.isInitialized()) {
      return; // Ray.shutdown has ended the actors
    }
    List<Runnable> steps = new ArrayList<>();
    if (!Ray.getRuntimeContext().isLocalMode()) {
      handles.forEach(
          handle ->
              steps.add(
                  () -> {
                    handle.kill();
                    NamedActors.forget(handle);
                  }));
    }
    if (placement != null) {
      steps.add(() -> Placement.remove(placement));
    }
    runAll(steps);
  }

  /** Runs every step, then throws the first failure, with the others suppressed. */
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

  /**
   * The settings of actors, and their creation. The actors need a resource: {@link #gpus}, {@link
   * #cpus}, {@link #resource} or several of them. Every method but {@link #create} changes this
   * builder and returns it. The last call of a method replaces the earlier ones; {@link #resource}
   * with different names and {@link #jvmOption} add.
   *
   * <p>A builder may create several groups. Each {@link #create} uses the settings of that moment,
   * so later changes do not affect the groups before. Not thread-safe.
   *
   * @param <A> the actors' class
   */
  public static final class Builder<A extends CollectiveActor> {

    /** Default of {@link #timeout(Duration)}. */
    public static final Duration TIMEOUT_DEFAULT = Duration.ofSeconds(60);

    private final IntFunction<ActorCreator<A>> creator;
    private final Map<String, Double> resources = new TreeMap<>();
    private final ActorJvm jvm = new ActorJvm();
    private Duration timeout = TIMEOUT_DEFAULT;
    private @Nullable String name;
    private boolean detached;
    private NodeCount nodes = NodeCount.ONE;
    private @Nullable PlacementGroup placement;

    private Builder(IntFunction<ActorCreator<A>> creator) {
      this.creator = Objects.requireNonNull(creator, "creator");
    }

    /**
     * Creates the actors and waits until their constructors have returned. If it fails, it releases
     * everything it created. An interrupt of the thread is a failure, and the flag is kept.
     *
     * @param count the number of actors, 1 or more
     * @throws IllegalArgumentException if the settings contradict each other or the placement
     *     group, or the actors have no resource
     * @throws IllegalStateException if the cluster has no room for the actors, with the wanted and
     *     the available resources in the message; if they have not started within {@link #timeout};
     *     or if there is an actor of the same name
     * @throws CollectiveException if an actor died while it started, or the thread was interrupted
     * @throws RuntimeException what an actor's constructor has thrown
     */
    public RayActorGroup<A> create(int count) {
      return ActorCreation.create(creator, count, settings());
    }

    ActorSettings settings() {
      return new ActorSettings(
          new TreeMap<>(resources), jvm.options(), timeout, name, detached, nodes, placement);
    }

    /**
     * Gives each actor this many GPUs, more than 0. An actor's member of a group uses the first of
     * them. Two actors that share a GPU cannot be in one group on GPUs.
     */
    public Builder<A> gpus(double count) {
      return resource("GPU", count);
    }

    /**
     * Gives each actor this many CPUs, more than 0. The groups of actors without a GPU run on the
     * CPU unless {@link io.nvrar.GroupConfig#backend()} is {@link io.nvrar.Backend#CUDA}.
     */
    public Builder<A> cpus(double count) {
      return resource("CPU", count);
    }

    /** Gives each actor this amount of a Ray resource, more than 0. */
    public Builder<A> resource(String name, double amount) {
      if (!(amount > 0) || Double.isInfinite(amount)) {
        throw new IllegalArgumentException(
            "each actor was to get " + amount + " " + name + ", must be more than 0");
      }
      resources.put(name, amount);
      return this;
    }

    /**
     * Sets the maximum heap of each actor's JVM, in the format of {@code -Xmx}, such as {@code
     * "2g"}.
     */
    public Builder<A> heap(String size) {
      if (!size.matches("[1-9][0-9]*[kKmMgG]?")) {
        throw new IllegalArgumentException(
            "heap is '" + size + "', must be a number of bytes or end in k, m or g, such as 2g");
      }
      return jvmOption("-Xmx" + size);
    }

    /**
     * Adds an option for each actor's JVM, after those that this library needs. The JVMs have the
     * serial collector unless an option chooses another one, such as {@code -XX:+UseZGC}.
     */
    public Builder<A> jvmOption(String option) {
      jvm.add(option);
      return this;
    }

    /**
     * Pins each actor's process, when it first opens a GPU, to the cores of that GPU's NUMA node
     * that it may use: all threads that it has then, and those that they start. Where Linux does
     * not say which cores these are, or the actor may use none of them, it stays as it is and logs
     * that. Actors whose GPUs are on one node share its cores. Without this, actors run where the
     * scheduler puts them; actors that open no GPU do so in any case.
     */
    public Builder<A> pinned() {
      return jvmOption("-D" + NearCores.PROPERTY + "=true");
    }

    /**
     * Sets how long creating the actors may wait for names, for resources and for their start
     * together; 1 s to 1 day.
     */
    public Builder<A> timeout(Duration value) {
      if (value.compareTo(Duration.ofSeconds(1)) < 0 || value.compareTo(Duration.ofDays(1)) > 0) {
        throw new IllegalArgumentException("timeout is " + value + ", must be 1 s to 1 day");
      }
      timeout = value;
      return this;
    }

    /**
     * Names the actors {@code <name>-0}, {@code <name>-1} and so on in the namespace of this driver
     * ({@code ray.job.namespace}), so that {@link RayActorGroup#find} finds them there. If Ray
     * still holds a name for a dead actor, creating the actors waits until the name is free.
     *
     * @param value not blank
     */
    public Builder<A> name(String value) {
      if (value.isBlank()) {
        throw new IllegalArgumentException("the actors' name is empty");
      }
      name = value;
      return this;
    }

    /**
     * Makes the actors outlive the driver and {@link RayActorGroup#close}, until {@link
     * RayActorGroup#kill}. They need a {@link #name}. Names belong to the namespace of the driver
     * that creates the actors: a later driver finds them only if both drivers were started with the
     * same {@code ray.job.namespace}. Ray gives a driver without that setting an anonymous
     * namespace of its own.
     *
     * <p>Ray ends the actors of a placement group with the group, and removes a Java driver's
     * placement groups with the driver. So none is created for detached actors: they start on a
     * node that has room for all of them, but that room is not reserved. A placement group set by
     * {@link #placementGroup} must live as long as the actors.
     */
    public Builder<A> detached() {
      detached = true;
      return this;
    }

    /**
     * Divides the actors as evenly as possible among so many nodes of the cluster. The actors of a
     * node are consecutive: of 5 actors on 2 nodes, actors 0 to 2 are on one, 3 and 4 on the other.
     * Without this, {@link #pack} and {@link #spread}, all actors are on one node.
     *
     * @param count 1 to the number of actors
     */
    public Builder<A> nodes(int count) {
      if (count < 1) {
        throw new IllegalArgumentException("nodes is " + count + ", must be 1 or more");
      }
      nodes = NodeCount.exactly(count);
      return this;
    }

    /** {@link #nodes} with the smallest number of nodes that have room for the actors. */
    public Builder<A> pack() {
      nodes = NodeCount.PACKED;
      return this;
    }

    /** {@link #nodes} with the largest number of nodes that have room for the actors. */
    public Builder<A> spread() {
      nodes = NodeCount.SPREAD;
      return this;
    }

    /**
     * Places actor {@code i} into bundle {@code i} of an existing placement group. The placement
     * group is not removed with the actors, but removing it ends the actors. It must have a bundle
     * for each actor, with all resources of an actor. If the bundles are on several nodes, those of
     * each node have to be consecutive: a group of the actors is refused otherwise.
     */
    public Builder<A> placementGroup(PlacementGroup value) {
      placement = Objects.requireNonNull(value, "value");
      return this;
    }
  }
}
