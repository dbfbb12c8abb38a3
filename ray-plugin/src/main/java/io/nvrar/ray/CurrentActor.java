package io.nvrar.ray;

import io.ray.api.Ray;
import io.ray.api.id.ActorId;
import io.ray.api.id.UniqueId;
import io.ray.api.runtimecontext.NodeInfo;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The actor whose task runs on this thread, as Ray's runtime context reports it: its id and node.
 */
final class CurrentActor {
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
}
