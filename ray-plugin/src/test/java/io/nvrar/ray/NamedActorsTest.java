package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** How long found handles are kept. */
class NamedActorsTest {

  @Test
  void whatWasFoundIsKeptWhileItMayLive() {
    try (StubRay ray = new StubRay()) {
      RayActorGroup.find(CollectiveActor.class, "tp", 2);
      RayActorGroup<CollectiveActor> group = RayActorGroup.find(CollectiveActor.class, "tp", 1);
      System.gc();
      assertThat(ray.found).hasSize(3).noneMatch(handle -> handle.refersTo(null));
      group.kill();
      ray.killed.clear();
      group = null;
      awaitGarbage(ray);
    }
  }

  @Test
  void nothingIsKeptOfActorsThatAreDead() {
    try (StubRay ray = new StubRay()) {
      ray.isDead = true;
      ray.findings = 4;
      NamedActors.awaitFree("tp", 1, System.nanoTime() + TimeUnit.MINUTES.toNanos(1));
      assertThat(ray.found).hasSize(4);
      awaitGarbage(ray);
    }
  }

  private static void awaitGarbage(StubRay ray) {
    await()
        .untilAsserted(
            () -> {
              System.gc();
              assertThat(ray.found).allMatch(handle -> handle.refersTo(null));
            });
  }
}
