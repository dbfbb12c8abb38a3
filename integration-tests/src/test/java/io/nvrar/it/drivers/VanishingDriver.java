package io.nvrar.it.drivers;

import io.nvrar.DataType;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import java.util.List;
import java.util.stream.IntStream;

/** A driver that makes a group of named actors and ends without a word to them. */
public final class VanishingDriver {

  public static final String STARTED = "started";
  public static final String WORKS = "works ";
  private static final Call SUM = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500);

  private VanishingDriver() {}

  /**
   * Arguments: the beginning of the actors' names, their number, the group's name, and whether to
   * leave the actors in a collective.
   */
  public static void main(String[] args) throws InterruptedException {
    Ray.init();
    System.out.println(STARTED);
    List<ActorHandle<Probe>> actors = actors(args[0], Integer.parseInt(args[1]));
    RayCollectiveGroup group = RayCollectives.createGroup(args[2], actors);
    System.out.println(WORKS + Calls.wrong(actors, group.name(), SUM));
    if (Boolean.parseBoolean(args[3])) {
      Calls.start(actors, actor -> actor.task(Probe::endOfReducing, group.name()).remote());
      Thread.sleep(500);
    }
    Runtime.getRuntime().halt(0);
  }

  static List<ActorHandle<Probe>> actors(String name, int count) {
    return IntStream.range(0, count)
        .mapToObj(i -> Ray.<ActorHandle<Probe>>getActor(name + "-" + i).orElseThrow())
        .toList();
  }
}
