package io.nvrar.it.actors;

import io.nvrar.ray.CollectiveActor;

/** Cannot be constructed. */
public class Fragile implements CollectiveActor {

  public Fragile() {
    throw new IllegalArgumentException("this shard's weights are missing");
  }
}
