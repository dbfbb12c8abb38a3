package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.GpuTest;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.ray.OrdinalProbe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.Ray;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** On the machine's GPUs, and what a pretended one cannot show. */
@GpuTest
class ActorsGpuIT extends ActorsContract {

  private static final double MB = 1e6;
  private static final double GROUP_LIMIT_MB = 128;

  /** Of GPU memory, for all groups of a process over NVSHMEM together. */
  private static final long ARENA_BYTES = 1L << 30;

  ActorsGpuIT() {
    super(Backend.CUDA, 1, 2, 4, 8);
  }

  @Test
  void actorsComputeOnTheGpusThatRayGaveThemAndOnEveryOne(RayCluster cluster) {
    int gpus = cluster.gpus();
    try (RayActorGroup<OrdinalProbe> actors =
        RayActorGroup.builder(OrdinalProbe::new).gpus(1).create(gpus)) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal)))
          .containsExactlyInAnyOrderElementsOf(IntStream.range(0, gpus).boxed().toList());
    }
  }

  @ParameterizedTest
  @MethodSource("worldsOfTwoHalves")
  void theGroupsOfOneNvshmemWorldWorkSideBySide(int world) {
    GroupConfig config =
        config().cuda(cuda -> cuda.memory(MemoryProvider.NVSHMEM).arenaBytes(ARENA_BYTES)).build();
    // The first of them makes the world, and the others have some of its members.
    try (RayActorGroup<Probe> actors = actors(world);
        RayCollectiveGroup whole = RayCollectives.createGroup("whole", actors.handles(), config);
        RayCollectiveGroup left = RayCollectives.createGroup("left", leftOf(actors), config);
        RayCollectiveGroup right = RayCollectives.createGroup("right", rightOf(actors), config)) {
      assertSideBySide(actors, left, right, whole);
    }
  }

  @ParameterizedTest
  @MethodSource("worlds")
  void aGroupTakesNoMoreMemoryOfAGpuThanPromisedAndGivesItBack(int world) {
    try (RayActorGroup<Probe> actors = actors(world)) {
      double before = leastFreeMb(actors);
      double first = before - leastFreeMbWith(actors, MemoryProvider.IPC);
      // What one that has closed before the others must keep goes when the next is made.
      double second = before - leastFreeMbWith(actors, MemoryProvider.IPC);
      double byItself = before - leastFreeMbWith(actors, MemoryProvider.AUTO);
      report(
          "%d ranks: a group and the kernels take %.0f MB of a GPU, a second after it %.0f MB; over what AUTO finds, with NVSHMEM's own share, %.0f MB",
          world, first, second, byItself);
      assertThat(first).isLessThanOrEqualTo(GROUP_LIMIT_MB);
      assertThat(second).as("nothing is left of the first").isLessThanOrEqualTo(first + 1);
    }
  }

  private double leastFreeMbWith(RayActorGroup<Probe> actors, MemoryProvider memory) {
    GroupConfig config = config().cuda(cuda -> cuda.memory(memory)).build();
    try (RayCollectiveGroup group =
        RayCollectives.createGroup("measured", actors.handles(), config)) {
      for (Collective collective : Collective.values()) {
        if (group.worldSize() >= collective.leastWorldSize()) {
          assertRight(actors, group, Call.of(collective, DataType.FLOAT32, 1000));
        }
      }
      return leastFreeMb(actors);
    }
  }

  private static double leastFreeMb(RayActorGroup<Probe> actors) {
    List<Long> free = Ray.get(actors.callAll(Probe::freeBytes));
    return free.stream().mapToLong(Long::longValue).min().orElseThrow() / MB;
  }
}
