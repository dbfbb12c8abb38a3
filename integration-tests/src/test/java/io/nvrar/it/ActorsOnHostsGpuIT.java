package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.GroupHealth;
import io.nvrar.RankHealth;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.SecondHost;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.Ray;
import java.io.IOException;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** On the GPUs of two hosts. */
@GpuTest
class ActorsOnHostsGpuIT extends ActorsContract {

  private @Nullable SecondHost second;

  ActorsOnHostsGpuIT() {
    super(Backend.CUDA, 2, 4, 8);
  }

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
  int nodes() {
    return 2;
  }

  @ParameterizedTest
  @MethodSource("worlds")
  void ranksOfTheOtherHostAreLinked(int world) {
    try (RayActorGroup<Probe> actors = actors(world);
        RayCollectiveGroup group = create("linked", actors.handles())) {
      GroupHealth health =
          Ray.get(actors.handles().get(0).task(Probe::health, group.name()).remote());
      assertThat(health.ranks().stream().filter(rank -> rank.link() != null))
          .extracting(RankHealth::rank)
          .containsExactlyElementsOf(IntStream.range(world / 2, world).boxed().toList());
    }
  }
}
