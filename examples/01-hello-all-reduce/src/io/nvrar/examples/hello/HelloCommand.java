package io.nvrar.examples.hello;

import io.nvrar.examples.cluster.ClusterOptions;
import io.nvrar.examples.cluster.Disconnection;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.nvrar.tools.NvrarCommand;
import io.ray.api.Ray;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** The driver: makes the actors, makes a group of them, and asks each for its sum. */
@Command(
    name = "hello",
    description = "Sum numbers over Ray actors by an all-reduce.",
    mixinStandardHelpOptions = true)
public final class HelloCommand implements NvrarCommand {

  @Mixin private final ClusterOptions cluster = new ClusterOptions();

  /** picocli sets it. */
  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Override
  public Integer call() {
    Disconnection end = cluster.connect();
    try (end;
        RayActorGroup<Greeter> actors =
            cluster.place(RayActorGroup.builder(Greeter::new)).create(cluster.ranks());
        RayCollectiveGroup group =
            RayCollectives.createGroup("hello", actors.handles(), cluster.config())) {
      Ray.get(actors.callAll(Greeter::sum, group.name()))
          .forEach(spec.commandLine().getOut()::println);
    }
    return 0;
  }
}
