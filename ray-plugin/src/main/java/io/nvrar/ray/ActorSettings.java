package io.nvrar.ray;

import io.ray.api.call.ActorCreator;
import io.ray.api.options.ActorLifetime;
import io.ray.api.placementgroup.PlacementGroup;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The settings of a {@link RayActorGroup.Builder} at the time of a creation.
 *
 * @param resources of each actor
 * @param jvmOptions of each actor's JVM
 * @param timeout how long names, resources and the start may take together
 * @param name what the actors' names begin with; null if they have none
 * @param detached whether the actors outlive the driver
 * @param nodes how many nodes they are on
 * @param placement the user's placement group; null if there is none
 */
record ActorSettings(
    Map<String, Double> resources,
    List<String> jvmOptions,
    Duration timeout,
    @Nullable String name,
    boolean detached,
    NodeCount nodes,
    @Nullable PlacementGroup placement) {

  /** Throws an {@link IllegalArgumentException} if so many actors cannot have these settings. */
  void check(int count) {
    if (resources.isEmpty()) {
      throw new IllegalArgumentException(
          "the actors have no resource: use Builder.gpus, cpus or resource");
    }
    if (detached && name == null) {
      throw new IllegalArgumentException(
          "detached actors need a name, or no later driver finds them: use Builder.name");
    }
    if (nodes.divisions(count).isEmpty()) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%d actors cannot be on %s", count, nodes));
    }
    if (!nodes.equals(NodeCount.ONE) && (detached || placement != null)) {
      throw new IllegalArgumentException(
          placement == null
              ? "detached actors are on one node: without Builder.placementGroup they cannot be on "
                  + nodes
              : "the bundles of Builder.placementGroup have their nodes, so the actors cannot be told to be on "
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
