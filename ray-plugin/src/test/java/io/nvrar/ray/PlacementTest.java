package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("slow")
class PlacementTest {
  @Test
  void aRemovalThatRayDoesNotDoEndsWithASentence() {
    CountDownLatch never = new CountDownLatch(1);
    assertThatThrownBy(
            () ->
                Placement.remove(
                    () -> {
                      try {
                        never.await();
                      } catch (InterruptedException e) {
                        throw new AssertionError(e);
                      }
                    },
                    Duration.ofMillis(100)))
        .isInstanceOf(CollectiveException.class)
        .hasMessage(
            "the placement group of the actors was not removed within 100 ms: the GCS of the Ray cluster is stopped or stuck");
    never.countDown();
  }

  @Test
  void anInterruptDoesNotCutARemovalShort() {
    AtomicBoolean removed = new AtomicBoolean();
    Thread.currentThread().interrupt();
    Placement.remove(() -> removed.set(slowly()), Duration.ofSeconds(20));
    assertThat(Thread.interrupted()).as("the flag").isTrue();
    assertThat(removed).isTrue();
  }

  @Test
  void anInterruptDoesNotLetADriverGoBeforeRayHasEnded() {
    AtomicBoolean ended = new AtomicBoolean();
    Thread.currentThread().interrupt();
    RayDriver.close(() -> ended.set(slowly()));
    assertThat(Thread.interrupted()).as("the flag").isTrue();
    assertThat(ended).isTrue();
  }

  private static boolean slowly() {
    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(200));
    return true;
  }

  @Test
  void aRemovalThatFailsGivesRaysReason() {
    RuntimeException reason = new IllegalStateException("of Ray");
    assertThatThrownBy(
            () ->
                Placement.remove(
                    () -> {
                      throw reason;
                    },
                    Duration.ofSeconds(20)))
        .isSameAs(reason);
  }

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
      assertThat(ray.placementGroups.get()).as("placement groups that are left").isZero();
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

  @Test
  void thePreferredChoiceIsTakenIfItsRoomHasJustBecomeFree() {
    Duration rayLooksAgain = Duration.ofSeconds(2);
    String found =
        Placement.firstWithRoom(
            List.of("preferred", "other"),
            Duration.ofSeconds(30),
            (choice, patience) ->
                choice.equals("other") || patience.compareTo(rayLooksAgain) >= 0 ? choice : null);
    assertThat(found).isEqualTo("preferred");
  }

  @Test
  void roomThatIsFreeIsFoundHoweverManyNumbersOfNodesArePreferred() {
    try (StubRay ray = new StubRay()) {
      ray.addNodes(12, Map.of("CPU", 12.0));
      ray.freeBundles = 6;
      Placement.Room room =
          Placement.reserve(12, Map.of("CPU", 1.0), NodeCount.SPREAD, Duration.ofSeconds(15));
      assertThat(room.division().nodes()).isEqualTo(6);
      assertThat(ray.placementGroups.get()).isOne();
    }
  }

  @Test
  void aFreeNodeIsFoundHoweverManyBusyOnesComeFirst() {
    try (StubRay ray = new StubRay()) {
      ray.addNodes(6, Map.of("CPU", 12.0));
      ray.freeNode = "10.0.0.5";
      assertThat(Placement.onOneNode(12, Map.of("CPU", 1.0), Duration.ofSeconds(10)))
          .containsOnlyKeys("CPU", "node:10.0.0.5");
      assertThat(ray.placementGroups.get()).as("placement groups that are left").isZero();
    }
  }

  @Test
  void theTimeThatActorsHadToStartIsSaid() {
    Duration timeout = Duration.ofSeconds(60);
    assertThat(ActorCreation.within(timeout.minusNanos(1), timeout)).isEqualTo("60 s");
    assertThat(ActorCreation.within(Duration.ofMillis(2_300), timeout))
        .isEqualTo("3 s, which free names and room for them had left of 60 s");
  }
}
