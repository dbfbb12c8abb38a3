package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.examples.llama.engine.cuda.CudaEngine;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.ray.RayActorGroup;
import io.ray.api.Ray;
import io.ray.api.runtimecontext.NodeInfo;
import org.jspecify.annotations.Nullable;

/**
 * Where the actors are to be: each on a GPU of its own, or on CPUs.
 *
 * @param ranks how many
 * @param nodes on how many nodes of the cluster
 * @param onGpus whether each has a GPU
 * @param mayFallBack whether they compute on the CPU if they cannot on their GPUs
 */
record ActorPlaces(int ranks, int nodes, boolean onGpus, boolean mayFallBack) {
  /** As many as there are without a wish, on CPUs and therefore on several nodes. */
  static final int RANKS_DEFAULT = 4;

  /**
   * Chooses, by the GPUs of the cluster. This driver must be connected.
   *
   * @param ranks as many as the user wants; null for 4, or on GPUs for as many of these as there
   *     are and as divide the model's heads
   * @throws ModelException if the backend is cuda and there are too few GPUs
   */
  static ActorPlaces choose(
      Backend backend, @Nullable Integer ranks, int nodes, LlamaConfig config) {
    int gpus = backend == Backend.CPU ? 0 : mostGpus();
    return choose(backend, ranks, nodes, config.heads(), gpus, CudaEngine.hasKernels());
  }

  /**
   * Chooses for given GPUs.
   *
   * @param gpus of the node that has the most
   * @param hasKernels whether this build can use them
   */
  static ActorPlaces choose(
      Backend backend,
      @Nullable Integer ranks,
      int nodes,
      int heads,
      int gpus,
      boolean hasKernels) {
    boolean mayFallBack = backend == Backend.AUTO;
    int wanted = ranks == null ? divisorUpTo(Math.min(RANKS_DEFAULT, gpus), heads) : ranks;
    if (backend == Backend.CUDA) {
      requireGpus(Math.max(1, wanted), nodes, gpus);
    }
    boolean onGpus =
        backend != Backend.CPU
            && nodes == 1
            && wanted > 0
            && wanted <= gpus
            && (!mayFallBack || hasKernels);
    int all = onGpus ? wanted : ranks == null ? RANKS_DEFAULT : ranks;
    return new ActorPlaces(all, nodes, onGpus, mayFallBack);
  }

  /** The options of the actors. */
  RayActorGroup.Options options() {
    return (onGpus ? RayActorGroup.Options.gpus(1) : RayActorGroup.Options.cpus(1)).nodes(nodes);
  }

  private static void requireGpus(int ranks, int nodes, int gpus) {
    if (nodes > 1) {
      throw new ModelException(
          "The backend cuda decodes on one node, and there were to be " + nodes + ".");
    }
    if (ranks > gpus) {
      throw new ModelException(
          gpus == 0
              ? "The backend cuda is not available: no node of the cluster has a GPU."
              : "The backend cuda needs a GPU for each of %d ranks, and no node of the cluster has more than %d."
                  .formatted(ranks, gpus));
    }
  }

  private static int divisorUpTo(int most, int heads) {
    int divisor = most;
    while (divisor > 1 && heads % divisor != 0) {
      divisor--;
    }
    return divisor;
  }

  private static int mostGpus() {
    int most = 0;
    for (NodeInfo node : Ray.getRuntimeContext().getAllNodeInfo()) {
      if (node.isAlive) {
        most = Math.max(most, node.resources.getOrDefault("GPU", 0.0).intValue());
      }
    }
    return most;
  }
}
