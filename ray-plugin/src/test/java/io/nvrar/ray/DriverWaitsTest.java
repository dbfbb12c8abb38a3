package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.internal.Uninterruptibly;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What an interrupt does to a driver that asks a GCS which does not answer. */
class DriverWaitsTest {
  private final CountDownLatch stuck = new CountDownLatch(1);

  @AfterEach
  void answer() {
    stuck.countDown();
    Thread.interrupted();
  }

  /** As a GCS that does not answer: the driver is interrupted once it has been asked. */
  private Runnable interrupting() {
    Thread driver = Thread.currentThread();
    return () -> {
      driver.interrupt();
      Uninterruptibly.await(
          left -> stuck.await(left, TimeUnit.NANOSECONDS), TimeUnit.SECONDS.toNanos(30));
    };
  }

  @Test
  void whatComesAfterAnInterruptIsUndone() {
    AtomicReference<String> undone = new AtomicReference<>();
    Runnable ask = interrupting();
    assertThatThrownBy(
            () ->
                DriverWaits.on(
                    () -> {
                      ask.run();
                      return "late";
                    },
                    undone::set,
                    "reserved room"))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the driver was interrupted while it reserved room");
    assertThat(Thread.interrupted()).as("the flag").isTrue();
    assertThat(undone).hasValue(null);
    stuck.countDown();
    await().atMost(Duration.ofSeconds(5)).untilAsserted(() -> assertThat(undone).hasValue("late"));
  }

  @Test
  void nothingIsAskedOnceTheDriverIsInterrupted() {
    AtomicReference<String> asked = new AtomicReference<>();
    Thread.currentThread().interrupt();
    assertThatThrownBy(
            () ->
                DriverWaits.on(
                    () -> {
                      asked.set("asked");
                      return "";
                    },
                    "asked"))
        .hasMessage("the driver was interrupted while it asked");
    assertThat(asked).hasValue(null);
  }

  @Test
  void aReservationThatComesLateIsGivenBack() {
    try (StubRay ray = new StubRay()) {
      ray.addNodes(1, Map.of("CPU", 8.0));
      ray.freeBundles = 8;
      ray.beforePlacement = interrupting();
      assertThatThrownBy(
              () -> Placement.reserve(2, Map.of("CPU", 1.0), NodeCount.ONE, Duration.ofSeconds(9)))
          .hasMessage("the driver was interrupted while it looked for room for actors");
      assertThat(Thread.interrupted()).as("the flag").isTrue();
      AtomicBoolean was = new AtomicBoolean();
      ray.beforeRemoval = () -> was.set(ray.placementGroups.get() == 1);
      stuck.countDown();
      await()
          .atMost(Duration.ofSeconds(5))
          .until(() -> was.get() && ray.placementGroups.get() == 0);
    }
  }

  @Test
  void anActorThatIsFoundLateIsKept() {
    try (StubRay ray = new StubRay()) {
      ray.beforeAnswers = interrupting();
      assertThatThrownBy(() -> NamedActors.awaitFree("tp", 1, System.nanoTime()))
          .hasMessage("the driver was interrupted while it looked up actor 'tp-0'");
      assertThat(Thread.interrupted()).as("the flag").isTrue();
      stuck.countDown();
      await().atMost(Duration.ofSeconds(5)).until(() -> ray.found.size() == 1);
      for (int i = 0; i < 5; i++) {
        System.gc();
      }
      assertThat(ray.found.get(0).get()).as("the handle").isNotNull();
    }
  }
}
