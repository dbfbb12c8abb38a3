package io.nvrar.examples.hello;

import io.ray.api.Ray;
import io.ray.api.runtimecontext.NodeInfo;

/**
 * What the cluster has. By itself, because the command line looks at every method of {@link
 * ClusterOptions}, also where Ray's classes are not there and only the help is asked for.
 */
final class Nodes {

  private Nodes() {}

  /** The GPUs of the node that offers most. */
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
