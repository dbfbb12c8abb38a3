package io.nvrar.it;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.SecondHost;
import java.io.IOException;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;

/** On the GPUs of two hosts. */
@GpuTest
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class DecodeOnHostsGpuIT extends DecodeGpuIT {

  private @Nullable SecondHost second;

  @BeforeAll
  void startSecondHost(RayCluster cluster) throws IOException {
    assumeTrue(cluster.gpus() >= 2, "two hosts need two GPUs");
    second = SecondHost.start(cluster);
  }

  @AfterAll
  void stopSecondHost() {
    if (second != null) {
      second.close();
    }
  }

  @Override
  List<String> places() {
    return List.of("--nodes", "2", "--backend", "cuda");
  }
}
