package io.nvrar.examples.cluster;

import io.ray.api.Ray;
import io.ray.api.runtimecontext.NodeInfo;

/**
 * The resources of the cluster. A separate class, because the command line reflects on every method
 * of {@link ClusterOptions}, even if Ray's classes are missing and only the help is printed.
 */
final class Nodes {

  private Nodes() {}

  /** The number of GPUs of the node that has the most. */
  static int mostGpus() {
    int most = 0;
    for (NodeInfo node : Ray.getRuntimeContext().getAllNodeInfo()) {
      if (node.isAlive) {
        most = Math.max(most, node.resources.getOrDefault("GPU", 0.0).intValue());
      }
    }
    return most;
  }
}
