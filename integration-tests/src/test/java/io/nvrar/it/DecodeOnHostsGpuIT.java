package io.nvrar.it;

import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.TwoHostsExtension;
import java.util.List;
import org.junit.jupiter.api.extension.ExtendWith;

/** On the GPUs of two hosts. */
@GpuTest
@ExtendWith(TwoHostsExtension.class)
class DecodeOnHostsGpuIT extends DecodeGpuIT {

  @Override
  List<String> places() {
    return List.of("--nodes", "2", "--backend", "cuda");
  }
}
