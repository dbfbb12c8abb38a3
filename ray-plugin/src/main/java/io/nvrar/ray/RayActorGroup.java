package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.internal.device.cuda.NearCores;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import io.ray.api.call.ActorCreator;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayException;
import io.ray.api.function.RayFunc0;
import io.ray.api.function.RayFunc1;
import io.ray.api.function.RayFunc2;
import io.ray.api.function.RayFunc3;
import io.ray.api.options.ActorLifetime;
import io.ray.api.placementgroup.PlacementGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Actors of one class on one node, or evenly on several. Each has a process of its own, with the
 * JVM options that Ray and this library need, and its own share of its node's resources. The actors
 * live until {@link #close} or the end of the driver; {@link Options#detached() detached} actors
 * live until {@link #kill}. A dead actor is not restarted. Thread-safe.
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
   * Creates the actors and waits until their constructors have returned. If it fails, it releases
   * everything it created. An interrupt of the thread is a failure, and the flag is kept.
   *
   * @param constructor a constructor reference such as {@code Shard::new}; Ray does not accept a
   *     lambda
   * @param count the number of actors, 1 or more
   * @param options what each actor gets
   * @throws IllegalArgumentException if the options contradict each other or their placement group
   * @throws IllegalStateException if the cluster has no room for the actors, with the wanted and
   *     the available resources in the message; if they have not started within {@link
   *     Options#timeout}; or if there is an actor of the same name
   * @throws CollectiveException if an actor died while it started, or the thread was interrupted
   */
  public static <A extends CollectiveActor> RayActorGroup<A> create(
      RayFunc0<A> constructor, int count, Options options) {
    return createByRank(rank -> Ray.actor(constructor), count, options);
  }

  /** {@link #create(RayFunc0, int, Options)} with a constructor of one argument. */
  public static <T0, A extends CollectiveActor> RayActorGroup<A> create(
      RayFunc1<T0, A> constructor, T0 argument, int count, Options options) {
    return createByRank(rank -> Ray.actor(constructor, argument), count, options);
  }

  /** {@link #create(RayFunc0, int, Options)} with a constructor of two arguments. */
  public static <T0, T1, A extends CollectiveActor> RayActorGroup<A> create(
      RayFunc2<T0, T1, A> constructor, T0 first, T1 second, int count, Options options) {
    return createByRank(rank -> Ray.actor(constructor, first, second), count, options);
  }

  /** {@link #create(RayFunc0, int, Options)} with a constructor of three arguments. */
  public static <T0, T1, T2, A extends CollectiveActor> RayActorGroup<A> create(
      RayFunc3<T0, T1, T2, A> constructor,
      T0 first,
      T1 second,
      T2 third,
      int count,
      Options options) {
    return createByRank(rank -> Ray.actor(constructor, first, second, third), count, options);
  }

  /**
   * {@link #create(RayFunc0, int, Options)} for actors that differ, for example by their rank:
   *
   * <pre>{@code
   * RayActorGroup.createByRank(rank -> Ray.actor(Shard::new, rank, model), 4, Options.gpus(1))
   * }</pre>
   *
   * @param creator called in this process, once for each rank. It may set what {@link Options}
   *     lacks, such as {@code setMaxConcurrency}. The JVM options, the restarts, and the resources
   *     that the options name are overridden; other resources that it requests are not reserved.
   *     Its name and lifetime are overridden only if the options set them. Its placement group is
   *     overridden unless {@link Options#detached} is set without {@link Options#placementGroup}
   */
  public static <A extends CollectiveActor> RayActorGroup<A> createByRank(
      IntFunction<ActorCreator<A>> creator, int count, Options options) {
    if (count < 1) {
      throw new IllegalArgumentException("count is " + count + ", must be 1 or more");
    }
    options.check(count);
    long deadline = System.nanoTime() + options.timeout.toNanos();
    if (options.name != null) {
      NamedActors.awaitFree(options.name, count, deadline);
    }
    PlacementGroup given = options.placement;
    Placement.Room room = null;
    Map<String, Double> resources = options.resources;
    if (given == null && options.detached) {
      resources = Placement.onOneNode(count, resources, left(deadline));
    } else if (given == null) {
      room = Placement.reserve(count, resources, options.nodes, left(deadline));
    }
    PlacementGroup reserved = room == null ? null : room.group();
    PlacementGroup placement = given == null ? reserved : given;
    List<ActorHandle<A>> handles = new ArrayList<>();
    try {
      for (int rank = 0; rank < count; rank++) {
        ActorCreator<A> actor = options.applyTo(creator.apply(rank), rank);
        actor.setResources(resources);
        if (placement != null) {
          actor.setPlacementGroup(placement, room == null ? rank : room.division().bundleOf(rank));
        }
        handles.add(start(actor, options.name, rank));
      }
      awaitReady(handles, left(deadline), options.timeout);
      return new RayActorGroup<>(reserved, !options.detached, handles);
    } catch (RuntimeException | Error e) {
      try {
        release(reserved, handles);
      } catch (RuntimeException | Error failed) {
        e.addSuppressed(failed);
      }
      throw e;
    }
  }

  /**
   * Finds the actors that this or another driver created under a {@link Options#name name}. {@link
   * #close} of the result leaves them alive.
   *
   * @param name the value that {@link Options#name} was called with
   * @param count the number of actors, as they were created
   * @throws IllegalStateException if one of them does not exist in this driver's namespace
   */
  public static <A extends CollectiveActor> RayActorGroup<A> find(String name, int count) {
    if (count < 1) {
      throw new IllegalArgumentException("count is " + count + ", must be 1 or more");
    }
    return new RayActorGroup<>(null, false, NamedActors.find(name, count));
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

  private static void release(
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

  /** The options of each actor of a {@link RayActorGroup}. Immutable; the setters return a copy. */
  public static final class Options {

    /** Default of {@link #timeout(Duration)}. */
    public static final Duration TIMEOUT_DEFAULT = Duration.ofSeconds(60);

    private static final String COLLECTOR = "-XX:+UseSerialGC";

    private static final Pattern COLLECTORS = Pattern.compile("-XX:\\+Use[A-Za-z0-9]+GC");

    /**
     * Ray's serializer reflects on six JDK packages; unless they are opened, an exception ends the
     * actor's process.
     */
    static final List<String> JVM_OPTIONS =
        List.of(
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-opens=java.base/java.math=ALL-UNNAMED",
            "--add-opens=java.base/java.util=ALL-UNNAMED",
            "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
            "--add-opens=java.base/java.net=ALL-UNNAMED",
            "--add-opens=java.base/java.text=ALL-UNNAMED",
            "--enable-native-access=ALL-UNNAMED",
            // Keeps Kryo from using sun.misc.Unsafe, which newer JDKs warn about.
            "-Dkryo.unsafe=false",
            // Several JVMs share the node's cores; the serial collector has the fewest threads and
            // starts fastest.
            COLLECTOR);

    private final Map<String, Double> resources;
    private final List<String> jvmOptions;
    private final Duration timeout;
    private final @Nullable String name;
    private final boolean detached;
    private final NodeCount nodes;
    private final @Nullable PlacementGroup placement;

    private Options(
        Map<String, Double> resources,
        List<String> jvmOptions,
        Duration timeout,
        @Nullable String name,
        boolean detached,
        NodeCount nodes,
        @Nullable PlacementGroup placement) {
      this.resources = resources;
      this.jvmOptions = jvmOptions;
      this.timeout = timeout;
      this.name = name;
      this.detached = detached;
      this.nodes = nodes;
      this.placement = placement;
    }

    private static Options defaults() {
      return new Options(Map.of(), JVM_OPTIONS, TIMEOUT_DEFAULT, null, false, NodeCount.ONE, null);
    }

    /**
     * Gives each actor this many GPUs, more than 0. An actor's member of a group uses the first of
     * them. Two actors that share a GPU cannot be in one group on GPUs.
     */
    public static Options gpus(double count) {
      return defaults().resource("GPU", count);
    }

    /**
     * Gives each actor this many CPUs, more than 0, and no GPU. Its groups run on the CPU unless
     * {@link io.nvrar.GroupConfig#backend()} is {@link io.nvrar.Backend#CUDA}.
     */
    public static Options cpus(double count) {
      return defaults().resource("CPU", count);
    }

    /** Gives each actor also this amount of a Ray resource, more than 0. */
    public Options resource(String name, double amount) {
      if (!(amount > 0) || Double.isInfinite(amount)) {
        throw new IllegalArgumentException(
            "each actor was to get " + amount + " " + name + ", must be more than 0");
      }
      Map<String, Double> more = new TreeMap<>(resources);
      more.put(name, amount);
      return new Options(more, jvmOptions, timeout, this.name, detached, nodes, placement);
    }

    /**
     * Sets the maximum heap of each actor's JVM, in the format of {@code -Xmx}, such as {@code
     * "2g"}.
     */
    public Options heap(String size) {
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
    public Options jvmOption(String option) {
      List<String> more = new ArrayList<>(jvmOptions);
      if (COLLECTORS.matcher(option).matches()) {
        more.remove(COLLECTOR); // a JVM with two collectors does not start
      }
      more.add(Objects.requireNonNull(option, "option"));
      return new Options(resources, List.copyOf(more), timeout, name, detached, nodes, placement);
    }

    /**
     * Pins each actor's process, when it first opens a GPU, to the cores of that GPU's NUMA node
     * that it may use: all threads that it has then, and those that they start. Where Linux does
     * not say which cores these are, or the actor may use none of them, it stays as it is and logs
     * that. Actors whose GPUs are on one node share its cores. Without this, actors run where the
     * scheduler puts them; actors that open no GPU do so in any case.
     */
    public Options pinned() {
      return jvmOption("-D" + NearCores.PROPERTY + "=true");
    }

    /**
     * Sets how long creating the actors may wait for names, for resources and for their start
     * together; 1 s to 1 day.
     */
    public Options timeout(Duration value) {
      if (value.compareTo(Duration.ofSeconds(1)) < 0 || value.compareTo(Duration.ofDays(1)) > 0) {
        throw new IllegalArgumentException("timeout is " + value + ", must be 1 s to 1 day");
      }
      return new Options(resources, jvmOptions, value, name, detached, nodes, placement);
    }

    /**
     * Names the actors {@code <name>-0}, {@code <name>-1} and so on in the namespace of this driver
     * ({@code ray.job.namespace}), so that {@link RayActorGroup#find} finds them there. If Ray
     * still holds a name for a dead actor, creating the actors waits until the name is free.
     *
     * @param value not blank
     */
    public Options name(String value) {
      if (value.isBlank()) {
        throw new IllegalArgumentException("the actors' name is empty");
      }
      return new Options(resources, jvmOptions, timeout, value, detached, nodes, placement);
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
    public Options detached() {
      return new Options(resources, jvmOptions, timeout, name, true, nodes, placement);
    }

    /**
     * Divides the actors as evenly as possible among so many nodes of the cluster. The actors of a
     * node are consecutive: of 5 actors on 2 nodes, actors 0 to 2 are on one, 3 and 4 on the other.
     * Without this, {@link #pack} and {@link #spread}, all actors are on one node.
     *
     * @param count 1 to the number of actors
     */
    public Options nodes(int count) {
      if (count < 1) {
        throw new IllegalArgumentException("nodes is " + count + ", must be 1 or more");
      }
      return on(NodeCount.exactly(count));
    }

    /** {@link #nodes} with the smallest number of nodes that have room for the actors. */
    public Options pack() {
      return on(NodeCount.PACKED);
    }

    /** {@link #nodes} with the largest number of nodes that have room for the actors. */
    public Options spread() {
      return on(NodeCount.SPREAD);
    }

    private Options on(NodeCount count) {
      return new Options(resources, jvmOptions, timeout, name, detached, count, placement);
    }

    /**
     * Places actor {@code i} into bundle {@code i} of an existing placement group. The placement
     * group is not removed with the actors, but removing it ends the actors. It must have a bundle
     * for each actor, with all resources of an actor. If the bundles are on several nodes, those of
     * each node have to be consecutive: a group of the actors is refused otherwise.
     */
    public Options placementGroup(PlacementGroup value) {
      return new Options(
          resources,
          jvmOptions,
          timeout,
          name,
          detached,
          nodes,
          Objects.requireNonNull(value, "value"));
    }

    private void check(int count) {
      if (detached && name == null) {
        throw new IllegalArgumentException(
            "detached actors need a name, or no later driver finds them: use Options.name");
      }
      if (nodes.divisions(count).isEmpty()) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "%d actors cannot be on %s", count, nodes));
      }
      if (!nodes.equals(NodeCount.ONE) && (detached || placement != null)) {
        throw new IllegalArgumentException(
            placement == null
                ? "detached actors are on one node: without Options.placementGroup they cannot be on "
                    + nodes
                : "the bundles of Options.placementGroup have their nodes, so the actors cannot be told to be on "
                    + nodes);
      }
      if (placement != null) {
        Placement.check(placement, count, resources);
      }
    }

    <A> ActorCreator<A> applyTo(ActorCreator<A> creator, int rank) {
      creator.setMaxRestarts(0);
      if (name != null) {
        creator.setName(NamedActors.name(name, rank));
      }
      if (detached) {
        creator.setLifetime(ActorLifetime.DETACHED);
      }
      return creator.setJvmOptions(jvmOptions);
    }
  }
}
