package io.nvrar.ray;

import io.ray.api.Ray;
import io.ray.api.id.ActorId;
import io.ray.api.id.UniqueId;
import io.ray.api.runtimecontext.NodeInfo;
import io.ray.api.runtimecontext.ResourceValue;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The actor whose task runs on this thread, as Ray's runtime context reports it: its id, node and
 * GPU.
 */
final class CurrentActor {

  /**
   * The GPUs of an actor: {@code GPU}, or inside a placement group {@code GPU_group_<group>} (and
   * once more with the bundle's index, which this leaves out).
   */
  private static final Pattern GPU_RESOURCE = Pattern.compile("GPU(_group_[0-9A-Za-z]+)?");

  private CurrentActor() {}

  /** The actor's id. Throws an {@link IllegalStateException} outside an actor. */
  static ActorId id() {
    if (Ray.isInitialized()) {
      try {
        ActorId id = Ray.getRuntimeContext().getCurrentActorId();
        if (id != null && !id.isNil()) {
          return id;
        }
      } catch (IllegalStateException e) {
        // Some versions of Ray throw this on the driver; others return null or the nil id.
        throw notAnActor(e);
      }
    }
    throw notAnActor(null);
  }

  private static IllegalStateException notAnActor(@Nullable Throwable cause) {
    return new IllegalStateException(
        "this is not an actor: RayCollectives.group and the other lookups are for the methods of a CollectiveActor; the driver uses the RayCollectiveGroup that createGroup returned",
        cause);
  }

  /** Whether Ray restarted the actor after its process died. */
  static boolean wasRestarted() {
    return Ray.getRuntimeContext().wasCurrentActorRestarted();
  }

  /**
   * The address at which Ray's other nodes reach this node. The operating system is not asked: its
   * host name may resolve to 127.0.0.1.
   */
  static String nodeAddress() {
    if (Ray.getRuntimeContext().isLocalMode()) {
      return "127.0.0.1";
    }
    UniqueId here = Ray.getRuntimeContext().getCurrentNodeId();
    List<NodeInfo> nodes = Ray.getRuntimeContext().getAllNodeInfo();
    return nodes.stream()
        .filter(node -> here.equals(node.nodeId))
        .map(node -> node.nodeAddress)
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalStateException(
                    String.format(
                        Locale.ROOT,
                        "Ray lists %d nodes, but not the one of this actor, %s",
                        nodes.size(),
                        here)));
  }

  /**
   * The CUDA ordinal of the actor's first GPU; empty if Ray assigned none, as always in local mode.
   */
  static OptionalInt gpu() {
    return Ray.getRuntimeContext().isLocalMode()
        ? OptionalInt.empty()
        : gpu(Ray.internal().getAvailableResourceIds());
  }

  /**
   * The raw id of the resource is the index into the devices that the node's processes see, which
   * is what CUDA calls the ordinal. {@code RuntimeContext.getGpuIds} returns the entry of
   * CUDA_VISIBLE_DEVICES at that index instead and fails where that is a UUID.
   */
  private static OptionalInt gpu(Map<String, List<ResourceValue>> resources) {
    return resources.entrySet().stream()
        .filter(entry -> GPU_RESOURCE.matcher(entry.getKey()).matches())
        .flatMap(entry -> entry.getValue().stream())
        .mapToInt(value -> Math.toIntExact(Objects.requireNonNull(value.resourceId, "resourceId")))
        .min();
  }
}
