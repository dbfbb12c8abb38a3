package io.nvrar.it.drivers;

import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayActorGroup;
import io.ray.api.Ray;
import java.io.IOException;
import java.util.stream.Collectors;

/** A driver that makes actors which can outlive it, and ends in order when its input does. */
public final class DetachingDriver {

  public static final String ACTORS = "actors ";
  public static final String KILL = "kill";

  private DetachingDriver() {}

  /** Arguments: the actors' name and number, and {@link #KILL} if they shall not outlive it. */
  public static void main(String[] args) throws IOException {
    Ray.init();
    // Ray 2.39's raylet dies where it has an idle worker of another driver with the same options.
    RayActorGroup.Builder<Probe> probes =
        RayActorGroup.builder(Probe::new)
            .gpus(1)
            .jvmOption("-Dnvrar.it.driver=" + args[0])
            .name(args[0])
            .detached();
    try (RayActorGroup<Probe> actors = probes.create(Integer.parseInt(args[1]))) {
      System.out.println(
          ACTORS
              + Ray.get(actors.callAll(Probe::pid)).stream()
                  .map(String::valueOf)
                  .collect(Collectors.joining(",")));
      System.in.read();
      if (args.length > 2 && args[2].equals(KILL)) {
        actors.kill();
        System.out.println(KILL);
      }
    }
    Ray.shutdown();
  }
}
