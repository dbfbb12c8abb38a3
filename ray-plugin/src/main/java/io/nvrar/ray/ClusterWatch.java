package io.nvrar.ray;

import io.nvrar.internal.flight.HostWatch;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.exception.RayException;
import io.ray.api.exception.RayTimeoutException;
import io.ray.api.id.UniqueId;
import io.ray.api.runtimecontext.NodeInfo;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sees the members of groups on all nodes of the cluster that this process is a driver of; for
 * {@code nvrar top}. This node is looked at directly, and each other one by an actor of its own
 * that takes none of its CPUs, so a look waits for no member. Not thread-safe.
 */
public final class ClusterWatch {
  private static final Logger LOG = LoggerFactory.getLogger(ClusterWatch.class);

  /** How long no other actor is started on a node after one has failed there. */
  private static final long RETRY_NANOS = Duration.ofSeconds(30).toNanos();

  /** A node has 10,000 of these units of its own address as a resource. */
  private static final double LEAST_RESOURCE = 0.0001;

  private final HostWatch here = new HostWatch();
  private final Map<UniqueId, Node> others = new HashMap<>();

  /** Ray is initialised. */
  ClusterWatch() {}

  /**
   * What is seen on a node.
   *
   * @param node its address
   * @param members a JSON array of {@link HostWatch.RankSample}; null if the node did not answer
   * @param problem why it did not; "" if it did
   */
  public record NodeLook(String node, @Nullable String members, String problem) {}

  /** The actor on another node. */
  static final class Probe {
    private final HostWatch watch = new HostWatch();

    String look() {
      return watch.lookAsJson();
    }
  }

  private static final class Node {
    final String address;
    @Nullable ActorHandle<Probe> probe;
    @Nullable ObjectRef<String> asked;
    long failedNanos;
    String failure = "";

    Node(String address) {
      this.address = address;
    }
  }

  /**
   * Looks at all nodes. A node that does not answer in time is asked no more until it does.
   *
   * @param limit how long to wait for answers
   */
  public List<NodeLook> look(Duration limit) {
    UniqueId local = Ray.getRuntimeContext().getCurrentNodeId();
    Set<String> addresses = new HashSet<>();
    Set<UniqueId> alive = new HashSet<>();
    List<NodeLook> looks = new ArrayList<>();
    for (NodeInfo info : nodes()) {
      if (info.nodeId.equals(local)) {
        addresses.add(info.nodeAddress);
      }
    }
    for (NodeInfo info : nodes()) {
      if (!info.nodeId.equals(local) && addresses.add(info.nodeAddress)) { // once for each host
        alive.add(info.nodeId);
        ask(others.computeIfAbsent(info.nodeId, id -> new Node(info.nodeAddress)));
      }
    }
    others.keySet().retainAll(alive);
    looks.add(new NodeLook("this host", here.lookAsJson(), ""));
    long deadline = System.nanoTime() + limit.toNanos();
    for (Node node : others.values()) {
      looks.add(answer(node, deadline - System.nanoTime()));
    }
    return looks;
  }

  private static List<NodeInfo> nodes() {
    return Ray.getRuntimeContext().getAllNodeInfo().stream().filter(node -> node.isAlive).toList();
  }

  private static void ask(Node node) {
    if (node.asked != null
        || (!node.failure.isEmpty() && System.nanoTime() - node.failedNanos < RETRY_NANOS)) {
      return;
    }
    ActorHandle<Probe> probe = node.probe;
    if (probe == null) {
      probe =
          Ray.actor(Probe::new)
              .setResource("node:" + node.address, LEAST_RESOURCE)
              .setMaxRestarts(0)
              .setJvmOptions(ActorJvm.REQUIRED)
              .remote();
      node.probe = probe;
    }
    node.failure = "";
    node.asked = probe.task(Probe::look).remote();
  }

  /** It may live, and only its look have failed: then another one would come to stay beside it. */
  private static void end(Node node) {
    ActorHandle<Probe> probe = node.probe;
    node.probe = null;
    if (probe != null) {
      try {
        probe.kill();
      } catch (RuntimeException e) {
        LOG.debug("the actor on {} cannot be ended", node.address, e);
      }
    }
  }

  private static NodeLook answer(Node node, long nanos) {
    ObjectRef<String> asked = node.asked;
    if (asked == null) {
      return new NodeLook(node.address, null, node.failure);
    }
    try {
      String members = Ray.get(asked, Math.max(1, nanos / 1_000_000));
      node.asked = null;
      return new NodeLook(node.address, members, "");
    } catch (RayTimeoutException e) {
      return new NodeLook(node.address, null, "it has not answered yet");
    } catch (RayException e) {
      node.asked = null;
      end(node);
      node.failedNanos = System.nanoTime();
      node.failure =
          "its process has failed: "
              + String.valueOf(e.getMessage()).lines().findFirst().orElse("");
      return new NodeLook(node.address, null, node.failure);
    }
  }
}
