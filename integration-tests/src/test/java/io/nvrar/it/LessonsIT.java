package io.nvrar.it;

import io.nvrar.it.cluster.RayTest;
import org.junit.jupiter.api.Tag;

/** On the CPU, which the machine may have GPUs beside. */
@RayTest
@Tag("basic")
class LessonsIT extends LessonsContract {

  LessonsIT() {
    super("host \\(CPU\\)", "cpu");
  }
}
