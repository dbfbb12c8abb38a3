package io.nvrar.it;

import static io.nvrar.it.actors.Calls.all;
import static io.nvrar.it.actors.Calls.start;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.Algorithm;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveFatalException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.GroupHealth;
import io.nvrar.GroupMismatchException;
import io.nvrar.LastCall;
import io.nvrar.PeerLostException;
import io.nvrar.RankHealth;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.exception.RayActorException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What members and driver learn when something breaks, and that they can go on. */
@RayTest
class FaultsIT {

  private static final Call SUM = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500);

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aKilledMemberIsNamedToTheOthersWithinASecondAndAFreshOneTakesItsPlace(int lost)
      throws InterruptedException {
    try (RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).gpus(1).create(3);
        RayActorGroup<Probe> spare = RayActorGroup.builder(Probe::new).gpus(1).create(1)) {
      RayCollectiveGroup group = RayCollectives.createGroup("mortal", actors.handles());
      long pid = actors.handles().get(lost).task(Probe::pid).remote().get();
      assertThat(Calls.wrong(actors.handles(), group.name(), SUM)).containsOnly("");
      List<ObjectRef<Long>> calls =
          start(actors.handles(), actor -> actor.task(Probe::reduceForever, "mortal").remote());
      Thread.sleep(500);
      ProcessHandle victim = ProcessHandle.of(pid).orElseThrow();
      long killed = System.nanoTime();
      if (lost == 0) {
        actors.handles().get(lost).kill();
      } else {
        victim.destroyForcibly();
      }
      await().atMost(Duration.ofSeconds(2)).until(() -> group.failure() != null);
      for (int rank = 0; rank < 3; rank++) {
        Throwable failure = Calls.failure(calls.get(rank));
        if (rank == lost) {
          assertThat(failure).isInstanceOf(RayActorException.class);
        } else {
          assertThat(failure).isInstanceOf(PeerLostException.class);
          PeerLostException peerLost = (PeerLostException) failure;
          assertThat(peerLost.lostRank()).isEqualTo(lost);
          assertThat(peerLost.pid()).isEqualTo(pid);
          assertThat(peerLost.host()).isNotEmpty();
          assertThat(peerLost)
              .hasMessageContaining("rank " + lost)
              .hasMessageContaining("allReduce");
          long known = actors.handles().get(rank).task(Probe::endNanos).remote().get();
          assertThat(Duration.ofNanos(known - killed))
              .as("until rank %d knew", rank)
              .isBetween(Duration.ZERO, Duration.ofSeconds(1));
        }
      }
      assertThat(group.failure())
          .isInstanceOfSatisfying(
              PeerLostException.class,
              seen -> {
                assertThat(seen.lostRank()).isEqualTo(lost);
                assertThat(seen.pid()).isEqualTo(pid);
                assertThat(seen)
                    .hasMessageMatching(
                        ".*; flight record on .+, unless it could not be written: .+\\.jsonl");
              });
      group.close();

      List<ActorHandle<Probe>> next = new ArrayList<>(actors.handles());
      next.set(lost, spare.handles().get(0));
      try (RayCollectiveGroup recovered = RayCollectives.createGroup("mortal", next)) {
        assertThat(Calls.wrong(next, recovered.name(), SUM)).containsOnly("");
      }
    }
  }

  /** Whether all ranks but the last are in a call. */
  private static boolean allButTheLastAreInACall(List<ActorHandle<Probe>> actors, String group) {
    int last = actors.size() - 1;
    GroupHealth health = actors.get(last).task(Probe::health, group).remote().get();
    return health.ranks().stream()
        .limit(last)
        .allMatch(rank -> rank.lastCall().state() == LastCall.State.RUNNING);
  }

  @Test
  void closingTheGroupEndsMembersThatWaitInACollective(RayCluster cluster) {
    List<ActorHandle<Probe>> actors = cluster.probes();
    RayCollectiveGroup group = RayCollectives.createGroup("waiting", actors);
    List<ObjectRef<Boolean>> waiting =
        start(actors.subList(0, 3), actor -> actor.task(Probe::barrier, "waiting").remote());
    await().atMost(Duration.ofSeconds(10)).until(() -> allButTheLastAreInACall(actors, "waiting"));
    long start = System.nanoTime();
    group.close();
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(5));
    for (ObjectRef<Boolean> call : waiting) {
      assertThat(Calls.failure(call))
          .isInstanceOfAny(CollectiveException.class, IllegalStateException.class);
    }
    assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, "waiting").remote()))
        .containsOnly(false);
  }

  @Test
  void anAbortEndsTheCallsOfAllMembersWithItsReason(RayCluster cluster)
      throws InterruptedException {
    List<ActorHandle<Probe>> actors = cluster.probes();
    try (RayCollectiveGroup group = RayCollectives.createGroup("aborted", actors)) {
      List<ObjectRef<Boolean>> waiting =
          start(actors.subList(0, 3), actor -> actor.task(Probe::barrier, "aborted").remote());
      Thread.sleep(300);
      group.abort("the user has seen enough");
      for (ObjectRef<Boolean> call : waiting) {
        assertThat(Calls.failure(call))
            .isInstanceOf(CollectiveException.class)
            .hasMessageContaining("the user has seen enough");
      }
    }
  }

  @Test
  void aMemberThatStaysAwayIsNamedAtTheCallsDeadline(RayCluster cluster) {
    List<ActorHandle<Probe>> actors = cluster.probes();
    GroupConfig config = GroupConfig.builder().timeout(Duration.ofSeconds(1)).build();
    try (RayCollectiveGroup group = RayCollectives.createGroup("incomplete", actors, config)) {
      List<ObjectRef<Boolean>> waiting =
          start(actors.subList(0, 3), actor -> actor.task(Probe::barrier, group.name()).remote());
      for (ObjectRef<Boolean> call : waiting) {
        Throwable failure = Calls.failure(call);
        assertThat(failure).isInstanceOf(CollectiveTimeoutException.class);
        assertThat(((CollectiveTimeoutException) failure).missingRanks()).containsExactly(3);
      }
    }
  }

  @Test
  void differentCallsAreAMismatchOnAllMembers(RayCluster cluster) {
    List<ActorHandle<Probe>> actors = cluster.probes();
    try (RayCollectiveGroup group = RayCollectives.createGroup("differing", actors)) {
      List<ObjectRef<String>> calls = new ArrayList<>();
      for (int rank = 0; rank < 4; rank++) {
        calls.add(
            actors
                .get(rank)
                .task(
                    Probe::check,
                    group.name(),
                    Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, rank == 1 ? 20 : 10))
                .remote());
      }
      for (ObjectRef<String> call : calls) {
        assertThat(Calls.failure(call)).isInstanceOf(GroupMismatchException.class);
      }
    }
  }

  @Test
  void everyExceptionArrivesAtTheDriverWithItsFields(RayCluster cluster) {
    ActorHandle<Probe> actor = cluster.probes().get(0);
    List<RuntimeException> exceptions =
        List.of(
            new PeerLostException("rank 3 is lost", 3, "node-b", 4711),
            new CollectiveTimeoutException("ranks 1 and 2 are missing", 1, 2),
            new GroupMismatchException("rank 0 has 4, rank 1 has 5"),
            new BackendUnavailableException("no library", new IllegalStateException("inner")),
            new CollectiveFatalException("this process must end"),
            new CollectiveException("outer", new IllegalStateException("inner")));
    for (RuntimeException sent : exceptions) {
      Throwable received = Calls.failure(actor.task(Probe::raise, sent).remote());
      assertThat(received)
          .usingRecursiveComparison()
          .ignoringFields("stackTrace", "cause")
          .isEqualTo(sent);
      assertThat(received).isExactlyInstanceOf(sent.getClass()).hasMessage(sent.getMessage());
      if (sent.getCause() != null) {
        assertThat(received).cause().hasMessage("inner");
      }
      received.addSuppressed(new CollectiveException("can still be added to"));
      assertThat(received.getSuppressed()).hasSize(1);
    }
  }

  @Test
  void aCauseThatRayCannotCarryCostsNoExceptionItsClass(RayCluster cluster) {
    ActorHandle<Probe> actor = cluster.probes().get(0);
    IOException missing = new NoSuchFileException("weights");
    List<RuntimeException> exceptions =
        List.of(
            new CollectiveException("outer", new UncheckedIOException(missing)),
            new BackendUnavailableException("no library", missing),
            new CollectiveException("outer", new BackendUnavailableException("inner", missing)),
            new ModelException("weights cannot be read", missing));
    for (RuntimeException sent : exceptions) {
      Throwable received = Calls.failure(actor.task(Probe::raise, sent).remote());
      assertThat(received).isExactlyInstanceOf(sent.getClass()).hasMessage(sent.getMessage());
      assertThat(received).cause().hasToString(String.valueOf(sent.getCause()));
      assertThat(received).rootCause().hasToString(missing.toString());
    }
  }

  @Test
  void whatAMemberHasAbortedForArrivesAtTheDriver(RayCluster cluster) {
    List<ActorHandle<Probe>> actors = cluster.probes();
    try (RayCollectiveGroup group = RayCollectives.createGroup("forAFile", actors)) {
      Throwable failure =
          Calls.failure(actors.get(0).task(Probe::abortForAFile, group.name()).remote());
      assertThat(failure)
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageContaining("aborted group 'forAFile': java.io.UncheckedIOException: ")
          .cause()
          .hasToString("java.io.UncheckedIOException: java.nio.file.NoSuchFileException: weights");
    }
  }

  @Test
  void theHealthOfAGroupArrivesAtTheDriverWhole(RayCluster cluster) {
    List<ActorHandle<Probe>> actors = cluster.probes();
    List<Long> pids = all(actors, actor -> actor.task(Probe::pid).remote());
    try (RayCollectiveGroup group = RayCollectives.createGroup("healthy", actors)) {
      assertThat(Calls.wrong(actors, "healthy", SUM)).containsOnly("");
      GroupHealth health = actors.get(1).task(Probe::health, "healthy").remote().get();
      assertThat(health.failure()).isNull();
      assertThat(health.ranks()).extracting(RankHealth::rank).containsExactly(0, 1, 2, 3);
      assertThat(health.ranks()).extracting(RankHealth::pid).isEqualTo(pids);
      assertThat(health.ranks())
          .allSatisfy(
              rank -> {
                assertThat(rank.host()).isNotEmpty();
                LastCall call = rank.lastCall();
                assertThat(call.toString())
                    .startsWith("allReduce #1 float32[500] SUM")
                    .endsWith(", done");
                assertThat(call.dataType()).isEqualTo(DataType.FLOAT32);
                assertThat(call.bytes()).isEqualTo(2000);
                assertThat(call.algorithm()).isEqualTo(Algorithm.ONE_SHOT);
                assertThat(rank.sequence()).isEqualTo(1);
                assertThat(rank.closed()).isFalse();
                assertThat(health.toString()).contains(rank.toString());
              });
      assertThat(health.ranks().get(0).silentMillis()).isGreaterThanOrEqualTo(0);
      assertThat(health.ranks()).extracting(RankHealth::silentMillis).endsWith(0L, -1L, -1L);
      group.abort("the user has seen enough");
      await()
          .untilAsserted(
              () ->
                  assertThat(all(actors, actor -> actor.task(Probe::health, "healthy").remote()))
                      .allSatisfy(
                          seen -> {
                            assertThat(seen.healthy()).isFalse();
                            assertThat(seen.failure()).contains("the user has seen enough");
                            assertThat(seen.ranks()).hasSize(4);
                          }));
    }
  }

  @Test
  void closingAnActorGroupEndsItsActorsAndNoOthers(RayCluster cluster) {
    RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).gpus(1).create(1);
    ActorHandle<Probe> actor = actors.handles().get(0);
    actors.close();
    actors.close();
    assertThatThrownBy(() -> Ray.get(actor.task(Probe::pid).remote(), 10_000))
        .isInstanceOf(RayActorException.class);
    assertThat(cluster.probes().get(0).task(Probe::pid).remote().get()).isPositive();
  }
}
