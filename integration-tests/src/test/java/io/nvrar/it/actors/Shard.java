package io.nvrar.it.actors;

import io.nvrar.ray.CollectiveActor;
import java.util.List;

/** Says what it was constructed with. */
public class Shard implements CollectiveActor {

  private final String arguments;

  public Shard(String one) {
    arguments = one;
  }

  public Shard(String one, Long two) {
    arguments = one + " " + two;
  }

  public Shard(String one, Long two, List<Integer> three) {
    arguments = one + " " + two + " " + three;
  }

  public String arguments() {
    return arguments;
  }
}
