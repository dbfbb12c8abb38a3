package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PlacementTest {

  @Test
  void roomThatOthersHoldIsNotAwaitedLongerThanTheTimeoutHoweverManyDivisionsThereAre() {
    try (StubRay ray = new StubRay()) {
      ray.addNodes(8, Map.of("CPU", 8.0));
      long start = System.nanoTime();
      assertThatThrownBy(
              () ->
                  Placement.reserve(8, Map.of("CPU", 1.0), NodeCount.SPREAD, Duration.ofSeconds(2)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith("no room for 8 actors of 1 CPU each on any nodes within 2 s");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(4));
      assertThat(ray.placementGroups).as("placement groups that are left").isZero();
    }
  }

  @Test
  void aDivisionIsTriedForLongerThanRayTakesToSeeRoomThatHasBecomeFree() {
    try (StubRay ray = new StubRay()) {
      ray.addNodes(3, Map.of("CPU", 8.0));
      ray.secondsToRoom = 2;
      Placement.Room room =
          Placement.reserve(3, Map.of("CPU", 1.0), NodeCount.SPREAD, Duration.ofSeconds(30));
      assertThat(room.division().nodes()).isEqualTo(3);
    }
  }
}
