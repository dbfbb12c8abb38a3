package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.ray.OrdinalProbe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayActorGroup.Options;
import io.nvrar.ray.RayCollectiveGroup;
import io.ray.api.Ray;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** On the machine's GPUs, and what a pretended one cannot show. */
@GpuTest
class ActorsGpuIT extends ActorsContract {

  private static final double MIB = 1 << 20;

  /**
   * A group's; NVSHMEM, where it is found, and the kernels have as much again once in a process.
   */
  private static final double GROUP_LIMIT_MIB = 128;

  private static final double PROCESS_LIMIT_MIB = 128;

  ActorsGpuIT() {
    super(Backend.CUDA, 1, 2, 4, 8);
  }

  @Test
  void actorsComputeOnTheGpusThatRayGaveThemAndOnEveryOne(RayCluster cluster) {
    int gpus = cluster.gpus();
    try (RayActorGroup<OrdinalProbe> actors =
        RayActorGroup.create(OrdinalProbe::new, gpus, Options.gpus(1))) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal)))
          .containsExactlyInAnyOrderElementsOf(IntStream.range(0, gpus).boxed().toList());
    }
  }

  @ParameterizedTest
  @MethodSource("worlds")
  void aGroupTakesNoMoreMemoryOfAGpuThanPromisedAndGivesItBack(int world) {
    try (RayActorGroup<Probe> actors = actors(world)) {
      double before = leastFreeMib(actors);
      double first = usedByAGroup(actors, before);
      double between = leastFreeMib(actors);
      double second = usedByAGroup(actors, between);
      double after = leastFreeMib(actors);
      report(
          "%d ranks: the first group takes %.0f MiB of a GPU, of which %.0f stay with the process; the second %.0f more, of which %.0f stay",
          world, first, before - between, second, between - after);
      assertThat(first).isLessThanOrEqualTo(GROUP_LIMIT_MIB + PROCESS_LIMIT_MIB);
      assertThat(second).isLessThanOrEqualTo(GROUP_LIMIT_MIB);
      assertThat(between - after).as("kept after every group").isLessThan(1);
    }
  }

  private double usedByAGroup(RayActorGroup<Probe> actors, double freeBefore) {
    try (RayCollectiveGroup group = create("measured", actors.handles())) {
      for (Collective collective : Collective.values()) {
        if (group.worldSize() >= collective.leastWorldSize()) {
          assertRight(actors, group, Call.of(collective, DataType.FLOAT32, 1000));
        }
      }
      return freeBefore - leastFreeMib(actors);
    }
  }

  private static double leastFreeMib(RayActorGroup<Probe> actors) {
    List<Long> free = Ray.get(actors.callAll(Probe::freeBytes));
    return free.stream().mapToLong(Long::longValue).min().orElseThrow() / MIB;
  }
}
