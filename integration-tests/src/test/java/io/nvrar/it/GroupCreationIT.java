package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.it.actors.Bystander;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.actors.SlowTicket;
import io.nvrar.it.actors.TicketRecorder;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What createGroup does with its arguments, and what it leaves when it fails. */
@RayTest
class GroupCreationIT {

  private static List<ActorHandle<Probe>> actors;

  @BeforeAll
  static void actors(RayCluster cluster) {
    actors = cluster.probes();
  }

  @Test
  void theTicketIsOneObjectThatRankZeroMakesAndAllGet() {
    try (RayActorGroup<TicketRecorder> recorders =
            RayActorGroup.builder(TicketRecorder::new).gpus(1).create(2);
        RayCollectiveGroup group = RayCollectives.createGroup("ticket", recorders.handles())) {
      assertThat(group.worldSize()).isEqualTo(2);
      List<String> notes = Ray.get(recorders.callAll(TicketRecorder::notes));
      assertThat(notes.get(1)).matches("got -?\\d+");
      assertThat(notes.get(0)).isEqualTo(notes.get(1).replace("got", "made") + ", " + notes.get(1));
    }
  }

  @Test
  void aBadNameOrListIsRefusedBeforeAnyTaskRuns() {
    assertThatThrownBy(() -> RayCollectives.createGroup(" ", actors))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the group's name is empty");
    assertThatThrownBy(() -> RayCollectives.createGroup("none", List.<ActorHandle<Probe>>of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a group has 1 to 512 members, 'none' was given 0 actors");
    assertThatThrownBy(
            () -> RayCollectives.createGroup("many", Collections.nCopies(513, actors.get(0))))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a group has 1 to 512 members, 'many' was given 513 actors");
    assertThatThrownBy(
            () ->
                RayCollectives.createGroup(
                    "twice", List.of(actors.get(0), actors.get(1), actors.get(0))))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("ranks 0 and 2 of group 'twice' are the same actor");
  }

  @Test
  void anActorThatIsDeadIsNamedAtOnce() {
    try (RayActorGroup<Probe> victims = RayActorGroup.builder(Probe::new).gpus(1).create(1)) {
      ActorHandle<Probe> victim = victims.handles().get(0);
      victim.kill();
      org.awaitility.Awaitility.await()
          .atMost(Duration.ofSeconds(10))
          .untilAsserted(
              () ->
                  assertThatThrownBy(
                          () -> RayCollectives.createGroup("dead", List.of(actors.get(0), victim)))
                      .isInstanceOf(CollectiveException.class)
                      .hasMessage(
                          "the actor of rank 1 was dead before group 'dead' was created; put a new actor in its place"));
    }
    sumsWork("dead");
  }

  @Test
  @SuppressWarnings({"unchecked", "rawtypes"})
  void anActorOfAnotherClassIsRefusedBeforeAnyTaskRuns() {
    ActorHandle<Bystander> bystander = Ray.actor(Bystander::new).setResource("GPU", 1.0).remote();
    try {
      List handles = List.of(actors.get(0), bystander);
      assertThatThrownBy(() -> RayCollectives.createGroup("raw", handles))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "rank 1 of group 'raw' is an actor of io.nvrar.it.actors.Bystander, which does not implement CollectiveActor");
      assertThat(bystander.task(Bystander::isThere).remote().get()).isTrue();
    } finally {
      bystander.kill();
    }
    sumsWork("raw");
  }

  /** By which createGroup finds out that Ray.shutdown() would stop every Ray of the host. */
  @Test
  void rayTellsWhetherItHasStartedAHeadForThisDriver() throws ReflectiveOperationException {
    Field started = Ray.internal().getClass().getDeclaredField("startRayHead");
    started.setAccessible(true);
    assertThat(started.getBoolean(Ray.internal())).isFalse();
  }

  @Test
  void anActorThatDiesWhileJoiningIsSeenAtOnceAndTheNameStaysFree() throws Exception {
    sumsWork("dying"); // so that what a first group loads takes nothing of the limit
    try (RayActorGroup<Probe> victims = RayActorGroup.builder(Probe::new).gpus(1).create(1)) {
      ActorHandle<Probe> victim = victims.handles().get(0);
      List<ActorHandle<Probe>> members = List.of(actors.get(0), actors.get(1), victim);
      ObjectRef<Boolean> busy = victim.task(Probe::sleep, 60_000).remote();
      CompletableFuture<Throwable> failure =
          CompletableFuture.supplyAsync(
              () -> catchThrowable(() -> RayCollectives.createGroup("dying", members)));
      Thread.sleep(1_000);
      assertThat(failure).isNotDone();
      long killed = System.nanoTime();
      victim.kill();
      assertThat(failure)
          .succeedsWithin(Duration.ofSeconds(10))
          .satisfies(
              thrown ->
                  assertThat(thrown)
                      .isInstanceOf(CollectiveException.class)
                      .hasMessageContaining("rank 2"));
      // If the others did not leave at once, undoing would wait 5 s for them.
      assertThat(Duration.ofNanos(System.nanoTime() - killed)).isLessThan(Duration.ofSeconds(5));
      assertThat(Calls.failure(busy)).isNotNull();
    }
    sumsWork("dying");
  }

  @Test
  void aBusyActorIsMissingAtTheDeadlineAndTheNameStaysFree() {
    sumsWork("busy"); // so that what a first group loads takes nothing of the limit
    ObjectRef<Boolean> busy = actors.get(3).task(Probe::sleep, 15_000).remote();
    CollectiveTimeoutException timeout =
        catchThrowableOfType(
            CollectiveTimeoutException.class,
            () ->
                RayCollectives.createGroup(
                    "busy",
                    actors,
                    GroupConfig.builder().joinTimeout(Duration.ofSeconds(5)).build()));
    assertThat(timeout).hasMessageContaining("busy");
    assertThat(timeout.missingRanks()).containsExactly(3);
    assertThat(busy.get()).isTrue();
    sumsWork("busy");
  }

  /** The members that have joined do not wait for the one that is busy. */
  @Test
  void anInterruptEndsItAndTheNameStaysFree() {
    sumsWork("interrupted"); // so that what a first group loads takes nothing of the limit
    ObjectRef<Boolean> busy = actors.get(3).task(Probe::sleep, 20_000).remote();
    long start = System.nanoTime();
    Thread.currentThread().interrupt();
    Throwable thrown = catchThrowable(() -> RayCollectives.createGroup("interrupted", actors));
    assertThat(Thread.interrupted()).as("the flag is kept").isTrue();
    assertThat(thrown)
        .isInstanceOf(CollectiveException.class)
        .hasMessage("the driver was interrupted while it created group 'interrupted'");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(12));
    List<ActorHandle<Probe>> others = actors.subList(0, 3);
    try (RayCollectiveGroup group = RayCollectives.createGroup("interrupted", others)) {
      assertThat(group.worldSize()).isEqualTo(3);
    }
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(19));
    assertThat(busy.get()).isTrue();
    sumsWork("interrupted");
  }

  /** Then the observer's join is what ends, and the failure that it gives is not the reason. */
  @Test
  void anInterruptJustBeforeTheTicketComesIsTheReason() {
    try (RayActorGroup<SlowTicket> slow =
        RayActorGroup.builder(SlowTicket::new).gpus(1).create(2)) {
      for (int millis = 0; millis <= 100; millis += 20) {
        interruptAfter(millis);
        Throwable thrown = catchThrowable(() -> RayCollectives.createGroup("late", slow.handles()));
        assertThat(Thread.interrupted()).as("the flag is kept").isTrue();
        assertThat(thrown)
            .isInstanceOf(CollectiveException.class)
            .hasMessage("the driver was interrupted while it created group 'late'");
      }
      try (RayCollectiveGroup group = RayCollectives.createGroup("late", slow.handles())) {
        assertThat(group.worldSize()).isEqualTo(2);
      }
    }
  }

  private static void interruptAfter(long millis) {
    Thread driver = Thread.currentThread();
    CompletableFuture.delayedExecutor(millis, TimeUnit.MILLISECONDS).execute(driver::interrupt);
  }

  @Test
  void aRendezvousPortInUseIsNamed() throws IOException {
    try (ServerSocket taken = new ServerSocket(0)) {
      assertThatThrownBy(
              () ->
                  RayCollectives.createGroup(
                      "port",
                      actors,
                      GroupConfig.builder().rendezvousPort(taken.getLocalPort()).build()))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining(Integer.toString(taken.getLocalPort()));
    }
    sumsWork("port");
  }

  @Test
  void anActorThatRayRestartedIsRefused() {
    ActorHandle<Probe> restarted =
        Ray.actor(Probe::new).setResource("GPU", 1.0).setMaxRestarts(1).remote();
    try {
      long pid = restarted.task(Probe::pid).remote().get();
      restarted.kill(false);
      org.awaitility.Awaitility.await()
          .atMost(Duration.ofSeconds(20))
          .ignoreExceptions()
          .until(() -> restarted.task(Probe::pid).remote().get() != pid);
      assertThatThrownBy(
              () -> RayCollectives.createGroup("restarted", List.of(actors.get(0), restarted)))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("the actor of rank 1 was restarted by Ray")
          .hasMessageContaining("'restarted'");
    } finally {
      restarted.kill();
    }
  }

  private static void sumsWork(String name) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors)) {
      Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 9);
      assertThat(Calls.wrong(actors, group.name(), sum)).containsOnly("");
    }
  }
}
