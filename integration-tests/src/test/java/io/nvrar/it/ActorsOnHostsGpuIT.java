package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Backend;
import io.nvrar.GroupHealth;
import io.nvrar.RankHealth;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.TwoHostsExtension;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.Ray;
import java.util.stream.IntStream;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** On the GPUs of two hosts. */
@GpuTest
@ExtendWith(TwoHostsExtension.class)
class ActorsOnHostsGpuIT extends ActorsContract {

  ActorsOnHostsGpuIT() {
    super(Backend.CUDA, 2, 4, 8);
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
