package io.nvrar.examples.hello;

import io.nvrar.cli.NvrarCommand;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.Ray;
import java.io.PrintWriter;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The driver: makes the actors, makes a group of them, and asks each for its sum. */
@Command(
    name = "hello",
    description = "Sum numbers over Ray actors by an all-reduce.",
    mixinStandardHelpOptions = true)
public final class HelloCommand implements NvrarCommand {

  static final String GROUP = "hello";

  @Option(
      names = "--ranks",
      paramLabel = "N",
      defaultValue = "4",
      description = "Number of actors, 1 to 8 (default: ${DEFAULT-VALUE}).")
  private int ranks;

  @Option(
      names = "--address",
      paramLabel = "HOST:PORT",
      description = "A running Ray cluster that this host is part of.")
  private @Nullable String address;

  /** picocli sets it. */
  @Spec
  @SuppressWarnings("NullAway.Init")
  private CommandSpec spec;

  @Override
  public Integer call() {
    if (address != null) {
      System.setProperty("ray.address", address);
    }
    // Without an address Ray would start a cluster, and at the end stop every one of this host.
    if (System.getProperty("ray.address", "").isEmpty()) {
      throw new ParameterException(
          spec.commandLine(),
          "there is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one");
    }
    Ray.init();
    try (RayActorGroup<Greeter> actors =
            RayActorGroup.create(Greeter::new, ranks, RayActorGroup.Options.gpus(1));
        RayCollectiveGroup group = RayCollectives.createGroup(GROUP, actors.handles())) {
      List<Float> sums = Ray.get(actors.callAll(Greeter::sum));
      PrintWriter out = spec.commandLine().getOut();
      for (int rank = 0; rank < group.worldSize(); rank++) {
        out.printf(
            "rank %d of %d: gave %d, the sum is %.0f%n",
            rank, group.worldSize(), rank + 1, sums.get(rank));
      }
    } finally {
      Ray.shutdown();
    }
    return 0;
  }
}
