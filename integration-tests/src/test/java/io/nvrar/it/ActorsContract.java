package io.nvrar.it;

import static io.nvrar.it.actors.Calls.all;
import static io.nvrar.it.actors.Calls.start;
import static io.nvrar.it.actors.Calls.wrong;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.PeerLostException;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.exception.RayActorException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What holds for actors with a GPU each, and for those with a pretended one on the CPU: groups of
 * different sizes, of the same actors, and what is left when one is killed. Every test makes its
 * own actors, as many as it says.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class ActorsContract {

  private static final Duration CREATION_LIMIT = Duration.ofSeconds(6);
  private static final Duration LOSS_LIMIT = Duration.ofSeconds(2);
  private static final Duration RECOVERY_LIMIT = Duration.ofSeconds(60);
  private static final int GRAPH_CALLS = 160;

  private final Backend backend;
  private final int[] worlds;
  private int gpus;

  /**
   * The tests on one backend.
   *
   * @param worlds sizes of groups; those that the cluster has too few GPUs for are left out
   */
  ActorsContract(Backend backend, int... worlds) {
    this.backend = backend;
    this.worlds = worlds.clone();
  }

  /** How the actors' members work: by itself, or launched from a graph. */
  enum Chain {
    CALLS,
    GRAPH
  }

  @BeforeAll
  void countGpus(RayCluster cluster) {
    gpus = cluster.gpus();
  }

  IntStream worlds() {
    return Arrays.stream(worlds);
  }

  IntStream worldsOfTwoHalves() {
    return worlds().filter(world -> world >= 4);
  }

  Stream<Arguments> everyChainOfSeveral() {
    return worlds()
        .filter(world -> world > 1)
        .boxed()
        .flatMap(world -> Arrays.stream(Chain.values()).map(chain -> Arguments.of(world, chain)));
  }

  @ParameterizedTest
  @MethodSource("worlds")
  void everyMemberHasADeviceOfItsOwnAndEveryCollectiveIsRight(int world) {
    try (RayActorGroup<Probe> actors = actors(world);
        RayCollectiveGroup group = createInTime("whole", actors.handles())) {
      List<String> devices = Ray.get(actors.callAll(Probe::device, group.name()));
      if (backend == Backend.CUDA) {
        assertThat(devices).allMatch(name -> name.matches("GPU \\d \\(CUDA\\)"));
        // Each host counts its own.
        int onHost = world / nodes();
        for (int first = 0; first < world; first += onHost) {
          assertThat(devices.subList(first, first + onHost)).doesNotHaveDuplicates();
        }
      } else {
        assertThat(devices).containsOnly("host (CPU)");
      }
      for (Collective collective : Collective.values()) {
        if (world >= collective.leastWorldSize()) {
          for (int count : new int[] {0, 1, 125, 4096, 100_003}) {
            assertRight(actors, group, Call.of(collective, DataType.FLOAT32, count));
          }
          assertRight(actors, group, Call.of(collective, DataType.BFLOAT16, 1000).root(world - 1));
          assertRight(actors, group, Call.of(collective, DataType.INT64, 1000).root(world - 1));
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("everyChainOfSeveral")
  void aKilledMemberIsNamedInTimeNothingKeepsRunningAndFreshActorsSum(int world, Chain chain) {
    // Rank 0 is the one whom the others reach each other by.
    int lost = chain == Chain.CALLS ? world - 1 : 0;
    long killed;
    try (RayActorGroup<Probe> actors = actors(world)) {
      RayCollectiveGroup group = create("mortal", actors.handles());
      Ray.get(actors.callAll(Probe::keep, group.name()));
      assertRight(actors, group, Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500));
      long pid = actors.handles().get(lost).task(Probe::pid).remote().get();
      List<ObjectRef<Long>> calls =
          chain == Chain.CALLS
              ? actors.callAll(Probe::reduceForever, group.name())
              : actors.callAll(Probe::replayForever, group.name(), GRAPH_CALLS);
      // None ends by itself; that takes as long as they need to be in the middle.
      assertThat(Ray.wait(List.copyOf(calls), 1, 1_000).getReady()).isEmpty();

      killed = System.nanoTime();
      ProcessHandle.of(pid).orElseThrow().destroyForcibly();
      for (int rank = 0; rank < world; rank++) {
        Throwable failure = Calls.failure(calls.get(rank));
        if (rank == lost) {
          assertThat(failure).isInstanceOf(RayActorException.class);
        } else {
          assertThat(failure)
              .isInstanceOfSatisfying(
                  PeerLostException.class,
                  seen -> {
                    assertThat(seen.lostRank()).isEqualTo(lost);
                    assertThat(seen.pid()).isEqualTo(pid);
                  });
        }
      }

      List<ActorHandle<Probe>> survivors =
          IntStream.range(0, world)
              .filter(rank -> rank != lost)
              .mapToObj(actors.handles()::get)
              .toList();
      assertThat(all(survivors, actor -> actor.task(Probe::settle, group.name()).remote()))
          .as("milliseconds for which kernels went on")
          .allMatch(millis -> millis < 1_000);
      List<Long> ends = all(survivors, actor -> actor.task(Probe::endNanos).remote());
      assertThat(ends)
          .as("when the survivors knew")
          .allSatisfy(
              end ->
                  assertThat(Duration.ofNanos(end - killed)).isBetween(Duration.ZERO, LOSS_LIMIT));
      Duration known = Duration.ofNanos(Collections.max(ends) - killed);
      report(
          "%d ranks, %s: PeerLostException everywhere %.2f s after kill -9",
          world, chain, known.toNanos() / 1e9);
      group.close();
      assertThat(all(survivors, actor -> actor.task(Probe::deviceWorks, group.name()).remote()))
          .containsOnly("");
    }
    try (RayActorGroup<Probe> fresh = actors(world);
        RayCollectiveGroup group = create("mortal", fresh.handles())) {
      assertRight(fresh, group, Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500));
      assertThat(since(killed)).as("fresh actors sum").isLessThan(RECOVERY_LIMIT);
      report("%d ranks, %s: fresh actors sum %.1f s after kill -9", world, chain, seconds(killed));
    }
  }

  @ParameterizedTest
  @MethodSource("worldsOfTwoHalves")
  void twoGroupsWorkSideBySideInAWorldThatCanBeSplit(int world) {
    try (RayActorGroup<Probe> actors = actors(world);
        RayCollectiveGroup left = create("left", leftOf(actors));
        RayCollectiveGroup right = create("right", rightOf(actors));
        RayCollectiveGroup whole = create("whole", actors.handles())) {
      assertSideBySide(actors, left, right, whole);
    }
  }

  static List<ActorHandle<Probe>> leftOf(RayActorGroup<Probe> actors) {
    return actors.handles().subList(0, actors.handles().size() / 2);
  }

  static List<ActorHandle<Probe>> rightOf(RayActorGroup<Probe> actors) {
    return actors.handles().subList(actors.handles().size() / 2, actors.handles().size());
  }

  /** By themselves at once, each in turn with the whole, and the whole's even and odd ranks. */
  static void assertSideBySide(
      RayActorGroup<Probe> actors,
      RayCollectiveGroup left,
      RayCollectiveGroup right,
      RayCollectiveGroup whole) {
    Call sum = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 10_000);
    List<ObjectRef<String>> sums = new ArrayList<>();
    for (int round = 0; round < 10; round++) {
      sums.addAll(start(leftOf(actors), a -> a.task(Probe::check, left.name(), sum).remote()));
      sums.addAll(start(rightOf(actors), a -> a.task(Probe::check, right.name(), sum).remote()));
    }
    assertThat(Ray.get(sums)).containsOnly("");
    assertRight(actors, whole, sum);

    List<ObjectRef<String>> turns = new ArrayList<>();
    turns.addAll(
        start(leftOf(actors), a -> a.task(Probe::inTurn, left.name(), whole.name(), 200).remote()));
    turns.addAll(
        start(
            rightOf(actors), a -> a.task(Probe::inTurn, right.name(), whole.name(), 200).remote()));
    assertThat(Ray.get(turns)).containsOnly("");

    int world = whole.worldSize();
    assertThat(Ray.get(actors.callAll(Probe::sumOfHalf, whole.name())))
        .isEqualTo(IntStream.range(0, world).mapToObj(rank -> halfOf(rank, world)).toList());
    assertRight(actors, whole, sum);
  }

  /** What {@link Probe#sumOfHalf} says: 2 to the power of each rank, the last rank first. */
  private static String halfOf(int rank, int world) {
    int sum =
        IntStream.range(0, world)
            .filter(other -> other % 2 == rank % 2)
            .map(other -> 1 << other)
            .sum();
    return String.format(
        Locale.ROOT,
        "rank %d of %d in whole/%d has %d",
        (world - 1 - rank) / 2,
        world / 2,
        rank % 2,
        sum);
  }

  @Test
  void actorsThatRayGaveNoGpuComputeOnTheCpuByThemselves() {
    try (RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).cpus(1).create(2);
        RayCollectiveGroup group = RayCollectives.createGroup("frugal", actors.handles())) {
      assertThat(Ray.get(actors.callAll(Probe::device, group.name()))).containsOnly("host (CPU)");
      assertRight(actors, group, Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500));
    }
  }

  /** With a GPU each; the test is left out where there are fewer. */
  final RayActorGroup<Probe> actors(int count) {
    assumeTrue(
        count <= gpus, () -> String.format(Locale.ROOT, "needs %d GPUs, here are %d", count, gpus));
    return RayActorGroup.builder(Probe::new).gpus(1).nodes(nodes()).create(count);
  }

  /** How many nodes of the cluster the actors are on. */
  int nodes() {
    return 1;
  }

  final RayCollectiveGroup create(String name, List<ActorHandle<Probe>> actors) {
    return RayCollectives.createGroup(name, actors, config().build());
  }

  /** What every group of these tests has, and the defaults. */
  final GroupConfig.Builder config() {
    return GroupConfig.builder().backend(backend);
  }

  private RayCollectiveGroup createInTime(String name, List<ActorHandle<Probe>> actors) {
    long start = System.nanoTime();
    RayCollectiveGroup group = create(name, actors);
    report(
        "%d ranks: a group of actors that are up is there after %.2f s",
        actors.size(), seconds(start));
    if (since(start).compareTo(CREATION_LIMIT) > 0) {
      group.close();
      throw new AssertionError("creating the group took " + since(start));
    }
    return group;
  }

  static void assertRight(RayActorGroup<Probe> actors, RayCollectiveGroup group, Call call) {
    assertThat(wrong(actors.handles(), group.name(), call)).as("%s", call).containsOnly("");
  }

  /** Into the report of the tests, which has what they print. */
  final void report(String format, Object... arguments) {
    System.out.println(backend + ": " + String.format(Locale.ROOT, format, arguments));
  }

  private static Duration since(long nanos) {
    return Duration.ofNanos(System.nanoTime() - nanos);
  }

  private static double seconds(long since) {
    return since(since).toNanos() / 1e9;
  }
}
