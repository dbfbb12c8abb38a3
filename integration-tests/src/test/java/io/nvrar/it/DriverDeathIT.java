package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.it.drivers.DriverProgram;
import io.nvrar.support.ChildJvm;
import io.ray.api.PlacementGroups;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementGroupState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** kill -9 of a driver whose actors are in a collective. */
@RayTest
class DriverDeathIT {

  @Test
  void aKilledDriversActorsEndWithTheirMemoryAndTheirPlacement(RayCluster cluster)
      throws IOException, InterruptedException {
    cluster.probes();
    Set<String> before = livePlacements();
    String leftByDriver;
    List<ProcessHandle> actors;
    try (ChildJvm driver = ForkedJvm.driver(cluster, DriverProgram.class.getName())) {
      actors =
          Arrays.stream(driver.awaitLine(DriverProgram.ACTORS).split(","))
              .map(pid -> ProcessHandle.of(Long.parseLong(pid)).orElseThrow())
              .toList();
      driver.awaitLine(DriverProgram.REDUCING);
      Thread.sleep(500);
      for (ProcessHandle actor : actors) {
        assertThat(Files.readString(Path.of("/proc/" + actor.pid() + "/maps")))
            .as("the members share memory that has no name")
            .contains("/memfd:");
      }
      leftByDriver = DriverFiles.of(driver.pid());
      driver.kill();
    }
    await()
        .atMost(Duration.ofSeconds(15))
        .until(() -> actors.stream().noneMatch(ProcessHandle::isAlive));
    await().atMost(Duration.ofSeconds(15)).until(() -> before.containsAll(livePlacements()));
    DriverFiles.delete(leftByDriver);
  }

  private static Set<String> livePlacements() {
    return PlacementGroups.getAllPlacementGroups().stream()
        .filter(group -> group.getState() != PlacementGroupState.REMOVED)
        .map(PlacementGroup::getName)
        .collect(Collectors.toSet());
  }
}
