package io.nvrar.it;

/** On the CPU, which the machine may have GPUs beside. */
@RayTest
class LessonsIT extends LessonsContract {

  LessonsIT() {
    super("host \\(CPU\\)", "cpu");
  }
}
