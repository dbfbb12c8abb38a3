package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CapturedLog;
import io.nvrar.CollectiveException;
import io.nvrar.internal.Uninterruptibly;
import io.ray.api.ActorHandle;
import io.ray.api.id.ActorId;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class DriverChecksTest {
  @RegisterExtension private final CapturedLog log = new CapturedLog();

  /** As Ray's runtime has it. */
  @SuppressWarnings("unused")
  private static final class RayRuntime {
    private final boolean startRayHead;

    RayRuntime(boolean startRayHead) {
      this.startRayHead = startRayHead;
    }
  }

  @Test
  void aDriverThatHasStartedAHeadIsFoundAndAnUnknownRayIsNone() {
    assertThat(DriverChecks.startedHead(new RayRuntime(true))).isTrue();
    assertThat(DriverChecks.startedHead(new RayRuntime(false))).isFalse();
    assertThat(DriverChecks.startedHead("another version")).isFalse();
  }

  /** java.base opens to no named module what it opens to the unnamed one. */
  @Test
  void aPackageThatIsNotOpenIsNamedByItsOption() {
    Module other = java.sql.Date.class.getModule();
    assertThat(DriverChecks.missingOpens(other))
        .isEqualTo(
            "--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.math=ALL-UNNAMED"
                + " --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.util.concurrent=ALL-UNNAMED"
                + " --add-opens=java.base/java.net=ALL-UNNAMED --add-opens=java.base/java.text=ALL-UNNAMED");
    assertThat(DriverChecks.missingOpens(Object.class.getModule())).isEmpty();
  }

  @Test
  void aClusterThatDoesNotTellWhoIsDeadNeitherFailsNorDelaysAGroup() {
    try (StubRay ray = new StubRay()) {
      ActorHandle<CollectiveActor> one = () -> ray.named;
      CountDownLatch never = new CountDownLatch(1);
      ray.isDead = true;
      ray.beforeActorInfo =
          () ->
              Uninterruptibly.await(
                  nanos -> never.await(nanos, TimeUnit.NANOSECONDS), TimeUnit.SECONDS.toNanos(30));
      long start = System.nanoTime();
      assertThatCode(() -> DriverChecks.requireAlive("tp", List.of(one)))
          .doesNotThrowAnyException();
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(10));
      never.countDown();
      ray.beforeActorInfo =
          () -> {
            throw new IllegalStateException("of Ray");
          };
      assertThatCode(() -> DriverChecks.requireAlive("tp", List.of(one)))
          .doesNotThrowAnyException();
    }
  }

  @Test
  void anActorThatIsDeadIsNamedBeforeAnyTaskRuns() {
    try (StubRay ray = new StubRay()) {
      ActorId other = ActorId.fromRandom();
      ActorHandle<CollectiveActor> first = () -> other;
      ActorHandle<CollectiveActor> second = () -> ray.named;
      List<ActorHandle<CollectiveActor>> actors = List.of(first, second);
      assertThatCode(() -> DriverChecks.requireAlive("tp", actors)).doesNotThrowAnyException();
      ray.isDead = true;
      assertThatThrownBy(() -> DriverChecks.requireAlive("tp", actors))
          .isInstanceOf(CollectiveException.class)
          .hasMessage(
              "the actor of rank 1 was dead before group 'tp' was created; put a new actor in its place");
      assertThatThrownBy(() -> RayCollectives.createGroup("tp", actors))
          .hasMessageStartingWith("the actor of rank 1 was dead before");
    }
    assertThat(log.text()).doesNotContain("has started a Ray head");
  }
}
