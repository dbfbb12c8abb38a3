package io.nvrar.it.drivers;

import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.Ray;
import java.util.List;
import java.util.stream.Collectors;

/** A driver to be killed: says who its actors are and lets them reduce until then. */
public final class DriverProgram {

  public static final String ACTORS = "actors ";
  public static final String REDUCING = "reducing";

  private DriverProgram() {}

  public static void main(String[] args) {
    Ray.init();
    try (RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).gpus(1).create(3);
        RayCollectiveGroup group = RayCollectives.createGroup("orphans", actors.handles())) {
      List<Long> pids = Ray.get(actors.callAll(Probe::pid));
      System.out.println(
          ACTORS + pids.stream().map(String::valueOf).collect(Collectors.joining(",")));
      var calls = actors.callAll(Probe::reduceForever, group.name());
      System.out.println(REDUCING);
      Ray.get(calls, 120_000);
    }
  }
}
