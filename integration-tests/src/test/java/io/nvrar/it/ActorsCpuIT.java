package io.nvrar.it;

import io.nvrar.Backend;

/** On pretended GPUs. */
@RayTest
class ActorsCpuIT extends ActorsContract {

  ActorsCpuIT() {
    super(Backend.CPU, 1, 4);
  }
}
