package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.ray.OrdinalProbe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayActorGroup.Options;
import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementGroupState;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Actors with their resources: made whole, or not at all. */
@RayTest
class ActorGroupIT {

  private Set<String> before;

  @BeforeEach
  void notePlacements() {
    before = livePlacements();
  }

  @AfterEach
  void noPlacementIsLeft() {
    await().atMost(Duration.ofSeconds(10)).until(() -> livePlacements().equals(before));
  }

  @Test
  void everyActorIsAProcessOfItsOwnThatEndsWithTheGroup() {
    List<Long> pids;
    try (RayActorGroup<Probe> actors =
        RayActorGroup.create(Probe::new, 3, Options.gpus(1).heap("64m"))) {
      pids = Ray.get(actors.callAll(Probe::pid));
      assertThat(pids).doesNotHaveDuplicates();
      assertThat(pids.get(0))
          .satisfies(
              pid ->
                  assertThat(argumentsOf(pid))
                      .contains("-Xmx64m", "--add-opens=java.base/java.text=ALL-UNNAMED"));
    }
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> pids.stream().noneMatch(pid -> ProcessHandle.of(pid).isPresent()));
  }

  @Test
  void everyActorComputesOnAGpuOfItsOwn() {
    try (RayActorGroup<OrdinalProbe> actors =
        RayActorGroup.create(OrdinalProbe::new, 3, Options.gpus(1))) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal)))
          .doesNotHaveDuplicates()
          .allMatch(ordinal -> ordinal >= 0 && ordinal < RayCluster.PRETENDED_GPUS);
    }
    try (RayActorGroup<OrdinalProbe> actors =
        RayActorGroup.create(OrdinalProbe::new, 1, Options.cpus(1))) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal))).containsExactly(-1);
    }
  }

  @Test
  void moreActorsThanAnyNodeHasRoomForAreRefusedAtOnce() {
    long start = System.nanoTime();
    assertThatThrownBy(() -> RayActorGroup.create(Probe::new, 9, Options.gpus(1)))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageMatching(
            "no node has room for 9 actors of 1 GPU each: the cluster has 8 GPU on [0-9.]+");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
  }

  @Test
  void actorsThatFindTheRoomTakenAreRefusedAtTheirTimeout() {
    try (RayActorGroup<Probe> holder = RayActorGroup.create(Probe::new, 1, Options.gpus(1))) {
      assertThat(holder.handles()).hasSize(1);
      assertThatThrownBy(
              () ->
                  RayActorGroup.create(
                      Probe::new, 8, Options.gpus(1).timeout(Duration.ofSeconds(2))))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageMatching(
              "no room for 8 actors of 1 GPU each on one node within 2 s: others hold too much of 8 GPU on [0-9.]+");
    }
  }

  @Test
  void aConstructorsExceptionIsThrownByTheDriver() {
    assertThatThrownBy(() -> RayActorGroup.create(Fragile::new, 2, Options.gpus(1)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this shard's weights are missing");
  }

  @Test
  void anActorWhoseJvmDoesNotStartIsReported() {
    assertThatThrownBy(
            () ->
                RayActorGroup.create(
                    Probe::new,
                    1,
                    Options.gpus(1).jvmOption("-Xmx1k").timeout(Duration.ofSeconds(5))))
        .isInstanceOfAny(CollectiveException.class, IllegalStateException.class)
        .hasMessageContaining("start");
  }

  @Test
  void optionsThatMakeNoSenseAreRefused() {
    assertThatThrownBy(() -> Options.gpus(0))
        .hasMessage("each actor was to get 0.0 GPU, must be more than 0");
    assertThatThrownBy(() -> Options.cpus(1).heap("lots"))
        .hasMessage("heap is 'lots', must be a number of bytes or end in k, m or g, such as 2g");
    assertThatThrownBy(() -> Options.cpus(1).timeout(Duration.ZERO))
        .hasMessage("timeout is PT0S, must be 1 s to 1 day");
    assertThatThrownBy(() -> RayActorGroup.create(Probe::new, 0, Options.cpus(1)))
        .hasMessage("count is 0, must be 1 or more");
  }

  // Not from ProcessHandle: it gives up on a command line longer than a page, as a worker's with a
  // long path is.
  private static List<String> argumentsOf(long pid) {
    try {
      return List.of(Files.readString(Path.of("/proc/" + pid + "/cmdline")).split("\0"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Set<String> livePlacements() {
    return PlacementGroups.getAllPlacementGroups().stream()
        .filter(group -> group.getState() != PlacementGroupState.REMOVED)
        .map(PlacementGroup::getName)
        .collect(Collectors.toSet());
  }
}
