package io.nvrar.examples.graph;

import io.nvrar.AllReduceFusion;
import io.nvrar.examples.cluster.ClusterOptions;
import io.nvrar.examples.cluster.Disconnection;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.nvrar.tools.NvrarCommand;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The driver: creates a group of actors, and lets each capture the same graph and replay it. */
@Command(
    name = "graph",
    description = "Replay a captured decode step of all-reduces on Ray actors.",
    mixinStandardHelpOptions = true)
public final class GraphCommand implements NvrarCommand {

  @Mixin private final ClusterOptions cluster = new ClusterOptions();

  @Option(
      names = "--calls",
      paramLabel = "N",
      defaultValue = "160",
      description = "All-reduces in the graph (default: ${DEFAULT-VALUE}).")
  private int calls;

  @Option(
      names = "--hidden",
      paramLabel = "N",
      defaultValue = "4096",
      description =
          "Elements of each all-reduce, float32, a multiple of 8 (default: ${DEFAULT-VALUE}).")
  private int hidden;

  @Option(
      names = "--replays",
      paramLabel = "N",
      defaultValue = "50",
      description = "How often to replay the graph (default: ${DEFAULT-VALUE}).")
  private int replays;

  /** picocli sets it. */
  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Override
  public Integer call() {
    require(
        calls >= 1 && replays >= 1,
        "--calls is %d and --replays %d; each must be 1 or more",
        calls,
        replays);
    require(
        hidden >= 1 && hidden <= AllReduceFusion.MAX_HIDDEN && hidden % 8 == 0,
        "--hidden is %d, must be a multiple of 8 from 8 to %d",
        hidden,
        AllReduceFusion.MAX_HIDDEN);
    require(
        calls <= Replayer.MOST_CALLS,
        "--calls is %d, must be 1 to %d, for float32 to hold the residuals exactly",
        calls,
        Replayer.MOST_CALLS);
    Disconnection end = cluster.connect();
    try (end;
        RayActorGroup<Replayer> actors =
            cluster.place(RayActorGroup.builder(Replayer::new)).create(cluster.ranks());
        RayCollectiveGroup group =
            RayCollectives.createGroup("graph", actors.handles(), cluster.config())) {
      List<ObjectRef<String>> runs =
          actors.handles().stream()
              .map(it -> it.task(Replayer::run, group.name(), calls, hidden, replays).remote())
              .toList();
      Ray.get(runs).forEach(spec.commandLine().getOut()::println);
    }
    return 0;
  }

  private void require(boolean right, String message, int given, int other) {
    if (!right) {
      throw new ParameterException(
          spec.commandLine(), String.format(Locale.ROOT, message, given, other));
    }
  }
}
