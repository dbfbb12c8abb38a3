package io.nvrar.ray;

import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.options.PlacementGroupCreationOptions;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementStrategy;
import io.ray.api.runtimecontext.NodeInfo;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;

/** Room for a number of actors on one node. */
final class Placement {

  private Placement() {}

  /**
   * Reserves a bundle for each actor, all on one node.
   *
   * @throws IllegalStateException at once if no node is large enough, and after {@code timeout} if
   *     the room stays taken; nothing is reserved then
   */
  static PlacementGroup reserve(int actors, Map<String, Double> each, Duration timeout) {
    if (!Ray.getRuntimeContext().isLocalMode()) {
      refuseIfTooLarge(actors, each);
    }
    List<Map<String, Double>> bundles = new ArrayList<>();
    for (int i = 0; i < actors; i++) {
      bundles.add(new HashMap<>(each));
    }
    PlacementGroup group =
        PlacementGroups.createPlacementGroup(
            new PlacementGroupCreationOptions.Builder()
                .setName("nvrar-" + UUID.randomUUID())
                .setBundles(bundles)
                .setStrategy(PlacementStrategy.STRICT_PACK)
                .build());
    boolean placed = false;
    try {
      placed = group.wait((int) Math.max(1, timeout.toSeconds()));
    } finally {
      if (!placed) {
        PlacementGroups.removePlacementGroup(group.getId());
      }
    }
    if (!placed) {
      throw new IllegalStateException(
          "no room for %s on one node within %d s: others hold too much of %s"
              .formatted(wanted(actors, each), timeout.toSeconds(), available(each)));
    }
    return group;
  }

  private static void refuseIfTooLarge(int actors, Map<String, Double> each) {
    boolean fits =
        aliveNodes().stream()
            .anyMatch(
                node ->
                    each.entrySet().stream()
                        .allMatch(
                            want ->
                                node.resources.getOrDefault(want.getKey(), 0.0)
                                    >= actors * want.getValue()));
    if (!fits) {
      throw new IllegalStateException(
          "no node has room for %s: the cluster has %s"
              .formatted(wanted(actors, each), available(each)));
    }
  }

  private static List<NodeInfo> aliveNodes() {
    return Ray.getRuntimeContext().getAllNodeInfo().stream().filter(node -> node.isAlive).toList();
  }

  private static String wanted(int actors, Map<String, Double> each) {
    return "%d actors of %s each".formatted(actors, amounts(each));
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
