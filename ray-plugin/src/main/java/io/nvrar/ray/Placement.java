package io.nvrar.ray;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Uninterruptibly;
import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.options.PlacementGroupCreationOptions;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementStrategy;
import io.ray.api.runtimecontext.NodeInfo;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Finds or reserves room for a number of actors on one node or several. */
final class Placement {

  /**
   * The amount of a node's own resource, of which every node has 1, that each actor asks for: small
   * enough for many actors.
   */
  private static final double A_LITTLE = 0.001;

  /**
   * How long each choice is tried at first: the shortest time that Ray can wait. Room that is free
   * is found in it, whichever choice it is for, before room that others hold is waited for.
   */
  private static final Duration FIRST_LOOK = Duration.ofSeconds(1);

  /**
   * The same for the preferred choice, if the timeout is long enough. What others have freed a
   * moment ago is seen in it: Ray looks again after up to a second.
   */
  private static final Duration PREFERRED_LOOK = Duration.ofSeconds(2);

  /**
   * How long each choice is tried after that, if the timeout is long enough. Ray looks at a
   * placement group that found no room again after up to a second, so in less it may not see room
   * that has become free.
   */
  private static final Duration PATIENCE = Duration.ofSeconds(3);

  /** A healthy GCS takes some milliseconds. */
  private static final Duration REMOVAL_LIMIT = Duration.ofSeconds(5);

  private static final String LOOKED = "looked for room for actors";

  private Placement() {}

  /**
   * Reserved room.
   *
   * @param group the placement group, which has to be removed
   * @param division which bundle is whose
   */
  record Room(PlacementGroup group, NodeCount.Division division) {}

  /**
   * Reserves room for actors on as many nodes as are wanted.
   *
   * @throws IllegalStateException at once if the nodes are not large enough, and after {@code
   *     timeout} if the room stays occupied; nothing is reserved then
   * @throws CollectiveException if the thread is interrupted
   */
  static Room reserve(int actors, Map<String, Double> each, NodeCount nodes, Duration timeout) {
    List<NodeCount.Division> possible =
        Ray.getRuntimeContext().isLocalMode()
            ? nodes.divisions(actors).subList(0, 1)
            : largeEnough(actors, each, nodes);
    Room room =
        firstWithRoom(
            possible,
            timeout,
            (division, patience) -> {
              PlacementGroup group = tryReserve(division, each, patience);
              return group == null ? null : new Room(group, division);
            });
    if (room != null) {
      return room;
    }
    throw taken(actors, each, nodes, timeout);
  }

  /**
   * Tries one choice after the other, the preferred one first, until one has room.
   *
   * @param attempt tries one for the given time; returns null if it has no room
   * @return null if none has room within the timeout
   */
  static <C, R> @Nullable R firstWithRoom(
      List<C> choices, Duration timeout, BiFunction<C, Duration, @Nullable R> attempt) {
    long deadline = System.nanoTime() + timeout.toNanos();
    for (int i = 0; i == 0 || System.nanoTime() < deadline; i++) {
      int choice = i % choices.size();
      Duration share =
          Duration.ofNanos(deadline - System.nanoTime()).dividedBy(choices.size() - choice);
      boolean isOnly = choices.size() == 1;
      boolean isFirstLook = i < choices.size();
      R found =
          attempt.apply(
              choices.get(choice),
              isOnly
                  ? share
                  : i == 0
                      ? shorter(share, PREFERRED_LOOK)
                      : isFirstLook ? FIRST_LOOK : shorter(share, PATIENCE));
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private static @Nullable PlacementGroup tryReserve(
      NodeCount.Division division, Map<String, Double> each, Duration patience) {
    PlacementGroupCreationOptions options =
        new PlacementGroupCreationOptions.Builder()
            .setName("nvrar-" + UUID.randomUUID())
            .setBundles(division.bundles(each))
            .setStrategy(
                division.nodes() == 1
                    ? PlacementStrategy.STRICT_PACK
                    : PlacementStrategy.STRICT_SPREAD)
            .build();
    PlacementGroup group =
        DriverWaits.on(
            () -> PlacementGroups.createPlacementGroup(options), Placement::removeLate, LOOKED);
    int seconds = (int) Math.max(FIRST_LOOK.toSeconds(), patience.toSeconds());
    boolean placed;
    try {
      placed = DriverWaits.on(() -> group.wait(seconds), LOOKED);
    } catch (RuntimeException | Error e) {
      try {
        remove(group);
      } catch (RuntimeException | Error again) {
        e.addSuppressed(again);
      }
      throw e;
    }
    if (!placed) {
      remove(group);
    }
    return placed ? group : null;
  }

  /**
   * Finds a node with room for a number of detached actors. They cannot be in a placement group of
   * this driver, because that ends with the driver. Nothing is reserved, so others may occupy the
   * room.
   *
   * @return the resources of each actor, including the resource that pins it to the node
   * @throws IllegalStateException as {@link #reserve} does
   */
  static Map<String, Double> onOneNode(int actors, Map<String, Double> each, Duration timeout) {
    if (Ray.getRuntimeContext().isLocalMode()) {
      return each;
    }
    NodeCount.Division onOne = new NodeCount.Division(actors, 1);
    List<NodeInfo> candidates = largeEnough(actors, each);
    if (candidates.isEmpty()) {
      throw tooSmall(actors, each, NodeCount.ONE);
    }
    Map<String, Double> found =
        firstWithRoom(
            candidates,
            timeout,
            (node, patience) -> {
              Map<String, Double> there = new TreeMap<>(each);
              there.put("node:" + node.nodeAddress, A_LITTLE);
              PlacementGroup group = tryReserve(onOne, there, patience);
              if (group == null) {
                return null;
              }
              remove(group);
              return there;
            });
    if (found != null) {
      return found;
    }
    throw taken(actors, each, NodeCount.ONE, timeout);
  }

  /**
   * Removes a placement group. An interrupt does not shorten the wait.
   *
   * @throws CollectiveException if Ray has not done it within 5 s; Ray removes the group with this
   *     driver in any case
   */
  static void remove(PlacementGroup group) {
    remove(() -> PlacementGroups.removePlacementGroup(group.getId()), REMOVAL_LIMIT);
  }

  /** If the driver has gone meanwhile, Ray has removed it. */
  private static void removeLate(PlacementGroup group) {
    if (Ray.isInitialized()) {
      remove(group);
    }
  }

  /** Ray itself waits more than a minute for a GCS that does not answer. */
  static void remove(Runnable removal, Duration limit) {
    if (!Uninterruptibly.run("nvrar-placement-removal", removal, limit)) {
      throw new CollectiveException(
          String.format(
              Locale.ROOT,
              "the placement group of the actors was not removed within %d ms: the GCS of the Ray cluster is stopped or stuck",
              limit.toMillis()));
    }
  }

  private static Duration shorter(Duration a, Duration b) {
    return a.compareTo(b) < 0 ? a : b;
  }

  /**
   * Checks that a user's placement group can hold the actors.
   *
   * @throws IllegalArgumentException if it cannot; the message says what it has and what is needed
   */
  static void check(PlacementGroup group, int actors, Map<String, Double> each) {
    List<Map<String, Double>> bundles = group.getBundles();
    if (bundles.size() < actors) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "%d actors need %d bundles, one each; placement group '%s' has %d",
              actors,
              actors,
              group.getName(),
              bundles.size()));
    }
    for (int i = 0; i < actors; i++) {
      Map<String, Double> bundle = bundles.get(i);
      if (!holds(bundle, each)) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "each actor gets %s, bundle %d of placement group '%s' has %s",
                amounts(each),
                i,
                group.getName(),
                amounts(bundle)));
      }
    }
  }

  private static boolean holds(Map<String, Double> has, Map<String, Double> wanted) {
    return wanted.entrySet().stream()
        .allMatch(want -> has.getOrDefault(want.getKey(), 0.0) >= want.getValue());
  }

  private static List<NodeCount.Division> largeEnough(
      int actors, Map<String, Double> each, NodeCount nodes) {
    List<NodeCount.Division> possible =
        nodes.divisions(actors).stream().filter(division -> holds(division, each)).toList();
    if (possible.isEmpty()) {
      throw tooSmall(actors, each, nodes);
    }
    return possible;
  }

  private static boolean holds(NodeCount.Division division, Map<String, Double> each) {
    int fewest = division.fewestOnANode();
    return largeEnough(fewest, each).size() >= division.nodes()
        && largeEnough(fewest + 1, each).size() >= division.nodesWithMore();
  }

  /** The nodes that hold so many actors. */
  private static List<NodeInfo> largeEnough(int actors, Map<String, Double> each) {
    Map<String, Double> together = NodeCount.together(actors, each);
    return aliveNodes().stream().filter(node -> holds(node.resources, together)).toList();
  }

  private static IllegalStateException tooSmall(
      int actors, Map<String, Double> each, NodeCount nodes) {
    return new IllegalStateException(
        String.format(
            Locale.ROOT,
            "%s for %s: the cluster has %s",
            nodes.equals(NodeCount.ONE) ? "no node has room" : "there is no room on " + nodes,
            wanted(actors, each),
            available(each)));
  }

  private static IllegalStateException taken(
      int actors, Map<String, Double> each, NodeCount nodes, Duration timeout) {
    return new IllegalStateException(
        String.format(
            Locale.ROOT,
            "no room for %s on %s within %d s: others hold too much of %s",
            wanted(actors, each),
            nodes,
            seconds(timeout),
            available(each)));
  }

  /** Rounded up, because what is left of a number of seconds is less at once. */
  static long seconds(Duration duration) {
    return (duration.toMillis() + 999) / 1000;
  }

  private static List<NodeInfo> aliveNodes() {
    return DriverWaits.on(() -> Ray.getRuntimeContext().getAllNodeInfo(), LOOKED).stream()
        .filter(node -> node.isAlive)
        .toList();
  }

  private static String wanted(int actors, Map<String, Double> each) {
    return String.format(Locale.ROOT, "%d actors of %s each", actors, amounts(each));
  }

  private static String available(Map<String, Double> each) {
    return aliveNodes().stream()
        .map(
            node -> {
              Map<String, Double> has = new HashMap<>();
              each.keySet().forEach(key -> has.put(key, node.resources.getOrDefault(key, 0.0)));
              return amounts(has) + " on " + node.nodeAddress;
            })
        .collect(Collectors.joining(", "));
  }

  private static String amounts(Map<String, Double> resources) {
    return new TreeMap<>(resources)
        .entrySet().stream()
            .map(
                entry -> {
                  double amount = entry.getValue();
                  return (amount == Math.rint(amount)
                          ? Long.toString(Math.round(amount))
                          : Double.toString(amount))
                      + " "
                      + entry.getKey();
                })
            .collect(Collectors.joining(" and "));
  }
}
