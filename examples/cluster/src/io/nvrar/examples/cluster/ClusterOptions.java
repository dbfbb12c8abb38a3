package io.nvrar.examples.cluster;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.standalone.Groups;
import io.ray.api.Ray;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * The common options of the lessons that use Ray: the cluster, the number of actors, and the
 * backend.
 */
public final class ClusterOptions {

  private static final int RANKS_DEFAULT = 4;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      description =
          "Number of actors, 1 to 8 (default: 4, or the GPUs of the node if it has fewer).")
  private @Nullable Integer ranks;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      defaultValue = "AUTO",
      description = "auto, cpu or cuda (default: auto, which is cuda where it can run).")
  private Backend backend = Backend.AUTO;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  /** picocli sets it. */
  @Spec(Spec.Target.MIXEE)
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  /**
   * Makes this process a driver of the cluster, until the result is closed.
   *
   * @throws ParameterException if the options are wrong; then no cluster is started
   */
  public Disconnection connect() {
    if (ranks != null && (ranks < 1 || ranks > Groups.MAX_NODE_SIZE)) {
      throw new ParameterException(
          spec.commandLine(),
          String.format(
              Locale.ROOT, "--ranks is %d, must be 1 to %d", ranks, Groups.MAX_NODE_SIZE));
    }
    if (!ClusterAddress.use(address)) {
      throw new ParameterException(
          spec.commandLine(),
          "there is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one");
    }
    Ray.init(); // at ray.address, which the line before has set
    return Disconnection.ofDriver();
  }

  /** The number of actors. The driver must be connected. */
  public int ranks() {
    if (ranks != null) {
      return ranks;
    }
    int gpus = Nodes.mostGpus();
    return gpus == 0 ? RANKS_DEFAULT : Math.min(RANKS_DEFAULT, gpus);
  }

  /**
   * Gives each actor a GPU, or a CPU where no node of the cluster has a GPU and the backend may be
   * the CPU's. The driver must be connected.
   */
  public <A extends CollectiveActor> RayActorGroup.Builder<A> place(
      RayActorGroup.Builder<A> actors) {
    return backend != Backend.CUDA && Nodes.mostGpus() == 0 ? actors.cpus(1) : actors.gpus(1);
  }

  /** The configuration of the group. */
  public GroupConfig config() {
    return GroupConfig.builder().backend(backend).build();
  }
}
