package io.nvrar.it;

import io.nvrar.Backend;
import io.nvrar.it.cluster.RayTest;

/** On pretended GPUs. */
@RayTest
class ActorsCpuIT extends ActorsContract {

  ActorsCpuIT() {
    super(Backend.CPU, 1, 4);
  }
}
