package io.nvrar.ray;

import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import io.ray.api.id.ActorId;
import io.ray.api.id.PlacementGroupId;
import io.ray.api.id.UniqueId;
import io.ray.api.options.PlacementGroupCreationOptions;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.runtime.RayRuntime;
import io.ray.api.runtimecontext.ActorInfo;
import io.ray.api.runtimecontext.ActorState;
import io.ray.api.runtimecontext.Address;
import io.ray.api.runtimecontext.NodeInfo;
import io.ray.api.runtimecontext.RuntimeContext;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * In Ray's place until it is closed: kills actors, or refuses to as often as it is told, and finds
 * them, by a new handle each time.
 */
final class StubRay implements AutoCloseable {

  /** What the next calls of kill throw. */
  final Deque<RuntimeException> refusals = new ArrayDeque<>();

  final List<ActorHandle<?>> killed = new ArrayList<>();

  /** The actor of every name. */
  final ActorId named = ActorId.fromRandom();

  /** How many handles of it are found; then nobody has its name. */
  int findings = Integer.MAX_VALUE;

  /** As a GCS that is stuck or gone. */
  volatile Runnable beforeActorInfo = () -> {};

  /** The same, for all other questions. */
  volatile Runnable beforeAnswers = () -> {};

  volatile Runnable beforeRemoval = () -> {};

  /** The same, for a reservation. */
  volatile Runnable beforePlacement = () -> {};

  boolean isDead;

  /** The handles that were found. */
  final List<WeakReference<ActorHandle<?>>> found = new ArrayList<>();

  /** How many placement groups there are. */
  final AtomicInteger placementGroups = new AtomicInteger();

  /** How many seconds a placement group waits for its room. */
  int secondsToRoom = Integer.MAX_VALUE;

  /** A placement group of at most so many bundles has its room at once. */
  int freeBundles;

  /** A placement group on the node with this address has its room at once. */
  String freeNode = "";

  private final List<NodeInfo> nodes = new ArrayList<>();

  StubRay() {
    RuntimeContext context =
        stub(
            RuntimeContext.class,
            (method, arguments) ->
                switch (method.getName()) {
                  case "getCurrentJobId" -> named.getJobId();
                  case "getAllActorInfo" -> {
                    beforeActorInfo.run();
                    yield arguments == null || isDead ? List.of(info()) : List.of();
                  }
                  case "getNamespace" -> "stub";
                  case "getAllNodeInfo" -> {
                    beforeAnswers.run();
                    yield nodes;
                  }
                  default -> false;
                });
    initialise(
        stub(
            RayRuntime.class,
            (method, arguments) ->
                switch (method.getName()) {
                  case "getRuntimeContext" -> context;
                  case "getActor" -> {
                    beforeAnswers.run();
                    yield find();
                  }
                  case "createPlacementGroup" -> {
                    beforePlacement.run();
                    yield createPlacementGroup((PlacementGroupCreationOptions) arguments[0]);
                  }
                  case "removePlacementGroup" -> {
                    beforeRemoval.run();
                    yield placementGroups.decrementAndGet();
                  }
                  case "extractConcurrencyGroups" -> List.of();
                  default -> kill((ActorHandle<?>) arguments[0]);
                }));
  }

  void addNodes(int count, Map<String, Double> resources) {
    for (int i = 0; i < count; i++) {
      nodes.add(
          new NodeInfo(
              UniqueId.randomId(), "10.0.0." + i, "n" + i, 1, "", "", true, resources, Map.of()));
    }
  }

  private PlacementGroup createPlacementGroup(PlacementGroupCreationOptions options) {
    List<Map<String, Double>> bundles = options.bundles;
    boolean isFree =
        bundles.size() <= freeBundles || bundles.get(0).containsKey("node:" + freeNode);
    placementGroups.incrementAndGet();
    return stub(
        PlacementGroup.class,
        (method, arguments) ->
            switch (method.getName()) {
              case "getId" -> PlacementGroupId.fromRandom();
              case "wait" -> isFree || waitForRoom((int) arguments[0]);
              default -> throw new AssertionError(method + " was called");
            });
  }

  private boolean waitForRoom(int seconds) {
    try {
      Thread.sleep(1000L * Math.min(seconds, secondsToRoom));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return secondsToRoom <= seconds;
  }

  private ActorInfo info() {
    ActorState state = isDead ? ActorState.DEAD : ActorState.ALIVE;
    return new ActorInfo(named, state, 0, new Address(UniqueId.NIL, "127.0.0.1", 1), "");
  }

  private Optional<ActorHandle<?>> find() {
    if (found.size() == findings) {
      return Optional.empty();
    }
    ActorHandle<?> handle = () -> named;
    found.add(new WeakReference<>(handle));
    return Optional.of(handle);
  }

  private @Nullable Object kill(ActorHandle<?> actor) {
    RuntimeException refusal = refusals.poll();
    if (refusal != null) {
      throw refusal;
    }
    killed.add(actor);
    return null;
  }

  private static <T> T stub(Class<T> type, BiFunction<Method, Object[], @Nullable Object> answer) {
    return type.cast(
        Proxy.newProxyInstance(
            StubRay.class.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, arguments) -> answer.apply(method, arguments)));
  }

  private static void initialise(@Nullable RayRuntime runtime) {
    try {
      Field field = Ray.class.getDeclaredField("runtime");
      field.setAccessible(true);
      field.set(null, runtime);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("Ray has no such field", e);
    }
  }

  @Override
  public void close() {
    initialise(null);
  }
}
