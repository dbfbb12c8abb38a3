package io.nvrar.it;

import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayActorGroup.Options;
import io.ray.api.Ray;
import java.io.IOException;
import java.util.stream.Collectors;

/** A driver that makes actors which outlive it, and ends in order when its input does. */
final class DetachingDriver {

  static final String ACTORS = "actors ";

  private DetachingDriver() {}

  /** Arguments: the actors' name and number. */
  public static void main(String[] args) throws IOException {
    Ray.init();
    try (RayActorGroup<Probe> actors =
        RayActorGroup.create(
            Probe::new, Integer.parseInt(args[1]), Options.gpus(1).name(args[0]).detached())) {
      System.out.println(
          ACTORS
              + Ray.get(actors.callAll(Probe::pid)).stream()
                  .map(String::valueOf)
                  .collect(Collectors.joining(",")));
      System.in.read();
    }
    Ray.shutdown();
  }
}
