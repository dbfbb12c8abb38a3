package io.nvrar.examples.hello;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.ray.api.Ray;
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

  /** Makes this process a driver of the cluster, until the result is closed. */
  public Disconnection connect() {
    if (address != null) {
      System.setProperty("ray.address", address);
    }
    // Without an address Ray would start a cluster, and at the end stop every cluster on this host.
    if (System.getProperty("ray.address", "").isEmpty()) {
      throw new ParameterException(
          spec.commandLine(),
          "there is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one");
    }
    Ray.init();
    return Disconnection.ofDriver();
  }

  /** The number of actors. The driver must be connected. */
  public int ranks() {
    return ranks != null ? ranks : Math.max(1, Math.min(RANKS_DEFAULT, Nodes.mostGpus()));
  }

  /** The configuration of the group. */
  public GroupConfig config() {
    return GroupConfig.builder().backend(backend).build();
  }
}
