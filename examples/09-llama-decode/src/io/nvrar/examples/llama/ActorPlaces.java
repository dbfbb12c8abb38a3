package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.PeerLostException;
import io.nvrar.examples.llama.engine.cuda.CudaEngine;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.ray.RayActorGroup;
import io.ray.api.Ray;
import io.ray.api.runtimecontext.NodeInfo;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Where the actors are to be: each on a GPU of its own, or on CPUs.
 *
 * @param ranks how many
 * @param nodes on how many nodes of the cluster
 * @param onGpus whether each has a GPU
 * @param isAuto whether that was not the user's choice
 * @param whyOnCpus why it was then not that for GPUs; empty if it was
 */
record ActorPlaces(int ranks, int nodes, boolean onGpus, boolean isAuto, String whyOnCpus) {
  /** As many as there are without a wish, on CPUs and therefore on several nodes. */
  static final int RANKS_DEFAULT = 4;

  /** The most nodes whose numbers of GPUs a sentence lists. */
  private static final int NODES_SAID = 8;

  /** The resource of a node that offers GPUs and has none, as bin/nvrar starts it without GPUs. */
  private static final String PRETENDED_GPUS = "pretended_gpus";

  /** Why no rank can compute on a GPU. */
  static final String NO_KERNELS =
      "this build has no kernels for GPUs, because there was no nvcc where it was built;"
          + " bin/nvrar setup --cuda gets one";

  /**
   * Chooses, by the GPUs of the cluster. This driver must be connected.
   *
   * @param ranks as many as the user wants; null for 4, or on GPUs for as many of these as there
   *     are and as divide the model's heads
   * @throws ModelException if the backend is cuda and there are too few GPUs
   */
  static ActorPlaces choose(
      Backend backend, @Nullable Integer ranks, int nodes, LlamaConfig config) {
    List<Integer> gpus = backend == Backend.CPU ? List.of() : gpusOfNodes();
    return choose(backend, ranks, nodes, config.heads(), gpus, CudaEngine.hasKernels());
  }

  /**
   * Chooses for given GPUs.
   *
   * @param gpus of each node that has some
   * @param hasKernels whether this build can use them
   */
  static ActorPlaces choose(
      Backend backend,
      @Nullable Integer ranks,
      int nodes,
      int heads,
      List<Integer> gpus,
      boolean hasKernels) {
    if (backend == Backend.CPU) {
      return onCpus(ranks, nodes, false, "");
    }
    int wanted = ranks == null ? mostUpToDefault(nodes, heads, gpus) : ranks;
    String problem =
        wanted == 0 && gpus.size() >= nodes
            ? String.format(
                Locale.ROOT,
                "no number of ranks up to %d on %d nodes has a GPU for each and divides %d heads",
                Math.max(RANKS_DEFAULT, nodes),
                nodes,
                heads)
            : problem(Math.max(wanted, nodes), nodes, gpus);
    if (backend == Backend.CUDA) {
      if (!problem.isEmpty()) {
        throw new ModelException("The backend cuda is not available: " + problem + ".");
      }
      return new ActorPlaces(wanted, nodes, true, false, "");
    }
    if (problem.isEmpty() && !hasKernels) {
      problem = NO_KERNELS;
    }
    return problem.isEmpty()
        ? new ActorPlaces(wanted, nodes, true, true, "")
        : onCpus(ranks, nodes, true, problem);
  }

  /**
   * Opens something in these places. If GPUs are there, but were not the user's choice, and it
   * cannot be opened on them, it is opened on CPUs.
   *
   * @param wantedRanks as many as the user wants; null for 4
   * @param opener what opens it, and leaves nothing behind if it fails
   * @param say hears a sentence about the choice, unless it was the user's
   */
  <T> T open(@Nullable Integer wantedRanks, Function<ActorPlaces, T> opener, Consumer<String> say) {
    if (isAuto && onGpus) {
      try {
        T opened = opener.apply(this);
        say.accept(
            String.format(Locale.ROOT, "Decodes on %d GPU%s.", ranks, ranks == 1 ? "" : "s"));
        return opened;
      } catch (PeerLostException | CollectiveTimeoutException e) {
        // Something broke, which a slow run on CPUs would hide.
        throw e;
      } catch (ModelException
          | CollectiveException
          | BackendUnavailableException
          // There are too few free GPUs, or actors do not start.
          | IllegalStateException e) {
        return onCpus(wantedRanks, nodes, true, String.valueOf(e.getMessage()))
            .open(wantedRanks, opener, say);
      }
    }
    if (isAuto) {
      say.accept("Decodes on CPUs: " + whyOnCpus + (whyOnCpus.endsWith(".") ? "" : "."));
    }
    return opener.apply(this);
  }

  private static ActorPlaces onCpus(
      @Nullable Integer ranks, int nodes, boolean isAuto, String why) {
    return new ActorPlaces(ranks == null ? RANKS_DEFAULT : ranks, nodes, false, isAuto, why);
  }

  /** The actors on these places. */
  RayActorGroup.Builder<LlamaActor> actors() {
    RayActorGroup.Builder<LlamaActor> actors = RayActorGroup.builder(LlamaActor::new).nodes(nodes);
    return onGpus ? actors.gpus(1) : actors.cpus(1);
  }

  private static String problem(int ranks, int nodes, List<Integer> gpus) {
    int most = largest(gpus, 1);
    if (most == 0) {
      return "no node of the cluster has a GPU";
    }
    if (nodes == 1) {
      return ranks <= most
          ? ""
          : String.format(
              Locale.ROOT,
              "each of %d ranks needs a GPU, and no node of the cluster has more than %d",
              ranks,
              most);
    }
    return ranks >= nodes && fit(ranks, nodes, gpus)
        ? ""
        : String.format(
            Locale.ROOT,
            "%d ranks on %d nodes need a GPU each, and of the cluster's nodes %d have %s",
            ranks,
            nodes,
            gpus.size(),
            gpus.stream()
                .sorted(Comparator.reverseOrder())
                .limit(NODES_SAID)
                .map(String::valueOf)
                .collect(Collectors.joining(", ", "", gpus.size() > NODES_SAID ? ", ..." : "")));
  }

  /** Whether each node has the GPUs of its ranks, which are divided as evenly as possible. */
  private static boolean fit(int ranks, int nodes, List<Integer> gpus) {
    int onMost = ranks % nodes;
    return largest(gpus, nodes) >= ranks / nodes
        && (onMost == 0 || largest(gpus, onMost) > ranks / nodes);
  }

  /**
   * As many as there are without a wish: up to the default, as the GPUs and the heads allow; 0 if
   * they allow none.
   */
  private static int mostUpToDefault(int nodes, int heads, List<Integer> gpus) {
    for (int ranks = Math.max(RANKS_DEFAULT, nodes); ranks >= nodes; ranks--) {
      if (heads % ranks == 0 && fit(ranks, nodes, gpus)) {
        return ranks;
      }
    }
    return 0;
  }

  /** The largest number of GPUs that each of so many nodes has. */
  private static int largest(List<Integer> gpus, int nodes) {
    return gpus.size() < nodes
        ? 0
        : gpus.stream().sorted(Comparator.reverseOrder()).toList().get(nodes - 1);
  }

  private static List<Integer> gpusOfNodes() {
    List<Integer> gpus = new ArrayList<>();
    for (NodeInfo node : Ray.getRuntimeContext().getAllNodeInfo()) {
      int own = node.resources.getOrDefault("GPU", 0.0).intValue();
      if (node.isAlive && own > 0 && !node.resources.containsKey(PRETENDED_GPUS)) {
        gpus.add(own);
      }
    }
    return gpus;
  }
}
