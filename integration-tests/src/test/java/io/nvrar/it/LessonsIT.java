package io.nvrar.it;

import io.nvrar.it.cluster.RayTest;

/** On the CPU, which the machine may have GPUs beside. */
@RayTest
class LessonsIT extends LessonsContract {

  LessonsIT() {
    super("host \\(CPU\\)", "cpu");
  }
}
