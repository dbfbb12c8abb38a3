package io.nvrar.it;

import io.nvrar.it.cluster.GpuTest;

/** As they run by themselves where there are GPUs: nobody asks them to use those. */
@GpuTest
class LessonsGpuIT extends LessonsContract {

  LessonsGpuIT() {
    super("GPU \\d \\(CUDA\\)", "auto");
  }
}
