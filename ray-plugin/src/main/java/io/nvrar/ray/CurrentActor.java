package io.nvrar.ray;

import io.ray.api.Ray;
import io.ray.api.id.ActorId;
import io.ray.api.id.UniqueId;
import io.ray.api.runtimecontext.NodeInfo;
import io.ray.api.runtimecontext.ResourceValue;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** What Ray knows of the actor whose task runs on this thread. */
final class CurrentActor {

  /**
   * The GPUs of an actor: {@code GPU}, or inside a placement group {@code GPU_group_<group>} (and
   * once more with the bundle's index, which this leaves out).
   */
  private static final Pattern GPU_RESOURCE = Pattern.compile("GPU(_group_[0-9A-Za-z]+)?");

  private CurrentActor() {}

  /** The actor's id; an {@link IllegalStateException} where no actor runs. */
  static ActorId id() {
    if (Ray.isInitialized()) {
      try {
        ActorId id = Ray.getRuntimeContext().getCurrentActorId();
        if (id != null && !id.isNil()) {
          return id;
        }
      } catch (IllegalStateException e) {
        // What some versions of Ray throw for the driver, where others return nothing.
        throw notAnActor(e);
      }
    }
    throw notAnActor(null);
  }

  private static IllegalStateException notAnActor(@Nullable Throwable cause) {
    return new IllegalStateException(
        "this is not an actor: RayCollectives.group and its kin are called in the methods of a CollectiveActor, the driver has the RayCollectiveGroup that createGroup returned",
        cause);
  }

  /** Whether Ray started the actor's process anew after its first death. */
  static boolean wasRestarted() {
    return Ray.getRuntimeContext().wasCurrentActorRestarted();
  }

  /**
   * The address under which Ray's other nodes reach this one. Not asked of the operating system,
   * whose host name may well stand for 127.0.0.1.
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
                    "Ray lists %d nodes, but not the one of this actor, %s"
                        .formatted(nodes.size(), here)));
  }

  /** The CUDA ordinal of the actor's first GPU; none if Ray gave it none, as in its local mode. */
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
