package io.nvrar.examples.hosts;

import io.nvrar.Backend;
import io.nvrar.examples.cluster.ClusterOptions;
import io.nvrar.examples.cluster.Disconnection;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.nvrar.tools.NvrarCommand;
import io.ray.api.Ray;
import java.io.PrintWriter;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The driver: spreads actors over the cluster's nodes and makes one group of them. */
@Command(
    name = "hosts",
    description = "Sum numbers over Ray actors on several hosts.",
    mixinStandardHelpOptions = true)
public final class HostsCommand implements NvrarCommand {

  @Mixin private final ClusterOptions cluster = new ClusterOptions();

  @Option(
      names = "--nodes",
      paramLabel = "N",
      description = "Number of nodes that the actors are on (default: as many as have room).")
  private @Nullable Integer nodes;

  /** picocli sets it. */
  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Override
  public Integer call() {
    PrintWriter out = spec.commandLine().getOut();
    Disconnection end = cluster.connect();
    try (end;
        RayActorGroup<Neighbour> actors = neighbours().create(cluster.ranks());
        RayCollectiveGroup group =
            RayCollectives.createGroup("hosts", actors.handles(), cluster.config())) {
      Ray.get(actors.callAll(Neighbour::sum, group.name())).forEach(out::println);
      out.println(Ray.get(actors.handles().get(0).task(Neighbour::health, group.name()).remote()));
    }
    return 0;
  }

  /** A CPU for each actor, or a GPU with --backend cuda. */
  private RayActorGroup.Builder<Neighbour> neighbours() {
    RayActorGroup.Builder<Neighbour> actors = RayActorGroup.builder(Neighbour::new);
    if (cluster.config().backend() == Backend.CUDA) {
      actors.gpus(1);
    } else {
      actors.cpus(1);
    }
    return nodes == null ? actors.spread() : actors.nodes(nodes);
  }
}
