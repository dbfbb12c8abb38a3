package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Fragile;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.actors.Shard;
import io.nvrar.it.cluster.ForkedJvm;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.it.drivers.DetachingDriver;
import io.nvrar.it.drivers.DriverFiles;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.OrdinalProbe;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.nvrar.support.ChildJvm;
import io.ray.api.ObjectRef;
import io.ray.api.PlacementGroups;
import io.ray.api.Ray;
import io.ray.api.options.PlacementGroupCreationOptions;
import io.ray.api.placementgroup.PlacementGroup;
import io.ray.api.placementgroup.PlacementGroupState;
import io.ray.api.placementgroup.PlacementStrategy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Actors with their resources: made whole, or not at all. */
@RayTest
class ActorGroupIT {

  private static final Call SUM = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 500);

  private Set<String> before;

  @BeforeEach
  void notePlacements() {
    before = livePlacements();
  }

  @AfterEach
  void noPlacementIsLeft() {
    await().atMost(Duration.ofSeconds(10)).until(() -> before.containsAll(livePlacements()));
  }

  @Test
  void everyActorIsAProcessOfItsOwnThatEndsWithTheGroup() {
    List<Long> pids;
    try (RayActorGroup<Probe> actors =
        RayActorGroup.builder(Probe::new).gpus(1).heap("64m").create(3)) {
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
        RayActorGroup.builder(OrdinalProbe::new).gpus(1).create(3)) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal)))
          .doesNotHaveDuplicates()
          .allMatch(ordinal -> ordinal >= 0 && ordinal < RayCluster.PRETENDED_GPUS);
    }
    try (RayActorGroup<OrdinalProbe> actors =
        RayActorGroup.builder(OrdinalProbe::new).cpus(1).create(1)) {
      assertThat(Ray.get(actors.callAll(OrdinalProbe::ordinal))).containsExactly(-1);
    }
  }

  @Test
  void aConstructorsArgumentsReachEveryActor() {
    try (RayActorGroup<Shard> one = RayActorGroup.builder(Shard::new, "a").cpus(1).create(2);
        RayActorGroup<Shard> two = RayActorGroup.builder(Shard::new, "a", 2L).cpus(1).create(1);
        RayActorGroup<Shard> three =
            RayActorGroup.builder(Shard::new, "a", 2L, List.of(3, 4)).cpus(1).create(1);
        RayActorGroup<Shard> byRank =
            RayActorGroup.builderByRank(rank -> Ray.actor(Shard::new, "rank", (long) rank))
                .cpus(1)
                .create(2)) {
      assertThat(Ray.get(one.callAll(Shard::arguments))).containsExactly("a", "a");
      assertThat(Ray.get(two.callAll(Shard::arguments))).containsExactly("a 2");
      assertThat(Ray.get(three.callAll(Shard::arguments))).containsExactly("a 2 [3, 4]");
      assertThat(Ray.get(byRank.callAll(Shard::arguments))).containsExactly("rank 0", "rank 1");
    }
  }

  @Test
  void namedActorsAreFoundByNameAndTheirNamesAreTheirsAlone() {
    RayActorGroup.Builder<Probe> named = RayActorGroup.builder(Probe::new).gpus(1).name("named");
    try (RayActorGroup<Probe> actors = named.create(2)) {
      RayActorGroup<Probe> found = RayActorGroup.find(Probe.class, "named", 2);
      List<Long> pids = Ray.get(actors.callAll(Probe::pid));
      assertThat(Ray.get(found.callAll(Probe::pid))).isEqualTo(pids);
      assertThatThrownBy(() -> named.create(3))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "there is already an actor named 'named-0' in namespace 'nvrar-it': find these actors, kill them, or take another name than 'named'");
      assertThatThrownBy(() -> RayActorGroup.find(Probe.class, "named", 3))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "there is no actor named 'named-2' in namespace 'nvrar-it': drivers find each other's actors under one ray.job.namespace");
      assertThatThrownBy(() -> RayActorGroup.find(Shard.class, "named", 2))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "actor 'named-0' is of "
                  + Probe.class.getName()
                  + ", not of "
                  + Shard.class.getName());
      assertThat(RayActorGroup.find(CollectiveActor.class, "named", 2).handles()).hasSize(2);
      found.close();
      assertThat(Ray.get(actors.callAll(Probe::pid))).as("found ones live on").isEqualTo(pids);
    }
  }

  @Test
  void whoeverLooksActorsUpByTheirNameDoesNotEndThem() throws InterruptedException {
    RayActorGroup.Builder<Probe> named =
        RayActorGroup.builder(Probe::new).gpus(1).name("looked-up");
    try (RayActorGroup<Probe> actors = named.create(2)) {
      List<Long> pids = Ray.get(actors.callAll(Probe::pid));
      assertThat(RayActorGroup.find(Probe.class, "looked-up", 1).handles()).hasSize(1);
      assertThatThrownBy(() -> named.create(2)).hasMessageContaining("'looked-up-0'");
      for (int i = 0; i < 5; i++) { // Ray ends an actor of which a handle is garbage
        System.gc();
        Thread.sleep(200);
      }
      assertThat(Ray.get(actors.callAll(Probe::pid))).isEqualTo(pids);
    }
  }

  @Test
  void aNameCanBeTakenAgainAtOnce() {
    for (boolean detached : List.of(false, true)) {
      RayActorGroup.Builder<Probe> probes = RayActorGroup.builder(Probe::new).gpus(1).name("again");
      RayActorGroup.Builder<Fragile> fragile =
          RayActorGroup.builder(Fragile::new).gpus(1).name("again");
      if (detached) {
        probes.detached();
        fragile.detached();
      }
      probes.create(2).kill();
      assertThatThrownBy(() -> fragile.create(2)).hasMessage("this shard's weights are missing");
      RayActorGroup<Probe> actors = probes.create(2);
      RayActorGroup<Probe> found = RayActorGroup.find(Probe.class, "again", 2);
      found.kill();
      actors.kill(); // of the dead
    }
    RayActorGroup.builder(Probe::new).gpus(1).name("again").create(2).close();
  }

  @Test
  void aNameCanBeTakenAgainAtOnceWhereAnotherDriverHasKilledItsActors(RayCluster cluster)
      throws IOException, InterruptedException {
    String leftByDriver;
    try (ChildJvm driver =
        ForkedJvm.driver(
            cluster, DetachingDriver.class.getName(), "others", "2", DetachingDriver.KILL)) {
      driver.awaitLine(DetachingDriver.ACTORS);
      leftByDriver = DriverFiles.of(driver.pid());
      // From here on Ray remembers in this process who has the names.
      RayActorGroup<Probe> found = RayActorGroup.find(Probe.class, "others", 2);
      assertThat(Ray.get(found.callAll(Probe::pid))).hasSize(2);
      driver.endInput();
      driver.awaitLine(DetachingDriver.KILL);
      RayActorGroup.builder(Probe::new).gpus(1).name("others").create(2).close();
      driver.awaitEnd(Duration.ofSeconds(30));
    }
    DriverFiles.delete(leftByDriver);
  }

  @Test
  void callsAreExactWhileTheActorAnswersOthers() {
    try (RayActorGroup<Probe> actors =
            RayActorGroup.builderByRank(rank -> Ray.actor(Probe::new).setMaxConcurrency(2))
                .gpus(1)
                .create(3);
        RayCollectiveGroup group = RayCollectives.createGroup("concurrent", actors.handles())) {
      List<ObjectRef<String>> wrong = actors.callAll(Probe::sumUntilEnough, group.name());
      for (int i = 0; i < 50; i++) {
        assertThat(Ray.get(actors.callAll(Probe::health, group.name())))
            .allSatisfy(health -> assertThat(health.ranks()).hasSize(3));
      }
      assertThat(Ray.get(actors.callAll(Probe::enough))).containsOnly(true);
      assertThat(Ray.get(wrong, 30_000)).containsOnly("");
    }
  }

  @Test
  void aFailureHalfWayLeavesNoActorNeitherNamedNorDetached() {
    assertThatThrownBy(
            () ->
                RayActorGroup.builderByRank(
                        rank -> {
                          if (rank == 1) {
                            throw new IllegalArgumentException("no rank 1");
                          }
                          return Ray.actor(Probe::new);
                        })
                    .cpus(2)
                    .name("fragile")
                    .detached()
                    .create(2))
        .hasMessage("no rank 1");
    await().atMost(Duration.ofSeconds(10)).until(() -> Ray.getActor("fragile-0").isEmpty());
    // All that the node has of what no other test keeps.
    try (RayActorGroup<Probe> actors = RayActorGroup.builder(Probe::new).cpus(2).create(8)) {
      assertThat(actors.handles()).as("the room is free").hasSize(8);
    }
  }

  @Test
  void detachedActorsOutliveTheirDriverAndAnotherFindsThem(RayCluster cluster)
      throws IOException, InterruptedException {
    List<Long> pids;
    String leftByDriver;
    try (ChildJvm driver =
        ForkedJvm.driver(cluster, DetachingDriver.class.getName(), "detached", "2")) {
      pids =
          Arrays.stream(driver.awaitLine(DetachingDriver.ACTORS).split(","))
              .map(Long::parseLong)
              .toList();
      leftByDriver = DriverFiles.of(driver.pid());
      driver.endInput();
      driver.awaitEnd(Duration.ofSeconds(30));
    }
    DriverFiles.delete(leftByDriver);
    Thread.sleep(2000); // what goes with the driver has gone
    RayActorGroup<Probe> found = RayActorGroup.find(Probe.class, "detached", 2);
    assertThat(Ray.get(found.callAll(Probe::pid))).isEqualTo(pids);
    try (RayCollectiveGroup group = RayCollectives.createGroup("found", found.handles())) {
      assertThat(Calls.wrong(found.handles(), group.name(), SUM)).containsOnly("");
    }
    found.close();
    assertThat(Ray.get(found.callAll(Probe::pid))).isEqualTo(pids);
    found.kill();
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> pids.stream().noneMatch(pid -> ProcessHandle.of(pid).isPresent()));
  }

  @Test
  void aPlacementGroupOfTheUsersHoldsTheActorsAndStays() {
    PlacementGroup given = ofTheUser(3);
    try {
      List<Long> pids;
      try (RayActorGroup<Probe> actors =
          RayActorGroup.builder(Probe::new).gpus(1).placementGroup(given).create(2)) {
        pids = Ray.get(actors.callAll(Probe::pid));
        assertThat(pids).doesNotHaveDuplicates();
        assertThat(livePlacements())
            .filteredOn(name -> !before.contains(name))
            .containsExactly("of-the-user");
      }
      await()
          .atMost(Duration.ofSeconds(10))
          .until(() -> pids.stream().noneMatch(pid -> ProcessHandle.of(pid).isPresent()));
      assertThat(livePlacements()).contains("of-the-user");
      assertThatThrownBy(
              () -> RayActorGroup.builder(Probe::new).gpus(1).placementGroup(given).create(4))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("4 actors need 4 bundles, one each; placement group 'of-the-user' has 3");
    } finally {
      PlacementGroups.removePlacementGroup(given.getId());
    }
  }

  private static PlacementGroup ofTheUser(int bundles) {
    PlacementGroup group =
        PlacementGroups.createPlacementGroup(
            new PlacementGroupCreationOptions.Builder()
                .setName("of-the-user")
                .setBundles(Collections.nCopies(bundles, bundle()))
                .setStrategy(PlacementStrategy.STRICT_PACK)
                .build());
    assertThat(group.wait(30)).isTrue();
    return group;
  }

  private static Map<String, Double> bundle() {
    return new HashMap<>(Map.of("GPU", 1.0));
  }

  @Test
  void moreActorsThanAnyNodeHasRoomForAreRefusedAtOnce() {
    long start = System.nanoTime();
    assertThatThrownBy(() -> RayActorGroup.builder(Probe::new).gpus(1).create(9))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageMatching(
            "no node has room for 9 actors of 1 GPU each: the cluster has 8 GPU on [0-9.]+");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
  }

  @Test
  void actorsThatFindTheRoomTakenAreRefusedAtTheirTimeout() {
    try (RayActorGroup<Probe> holder = RayActorGroup.builder(Probe::new).gpus(1).create(1)) {
      assertThat(holder.handles()).hasSize(1);
      assertThatThrownBy(
              () ->
                  RayActorGroup.builder(Probe::new)
                      .gpus(1)
                      .timeout(Duration.ofSeconds(2))
                      .create(8))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageMatching(
              "no room for 8 actors of 1 GPU each on one node within 2 s: others hold too much of 8 GPU on [0-9.]+");
    }
  }

  @Test
  void anInterruptEndsTheWaitForRoomAndForTheStart() {
    PlacementGroup given = ofTheUser(1);
    try {
      Map<String, RayActorGroup.Builder<Probe>> waits =
          Map.of(
              "the driver was interrupted while it looked for room for actors",
              RayActorGroup.builder(Probe::new).gpus(1),
              "the driver was interrupted while it started actors",
              RayActorGroup.builder(Probe::new).gpus(1).placementGroup(given));
      waits.forEach(
          (message, actors) -> {
            Thread.currentThread().interrupt();
            Throwable thrown = catchThrowable(() -> actors.create(1));
            assertThat(Thread.interrupted()).as("the flag is kept").isTrue();
            assertThat(thrown).isInstanceOf(CollectiveException.class).hasMessage(message);
          });
      assertThat(livePlacements())
          .filteredOn(name -> !before.contains(name))
          .containsExactly("of-the-user");
    } finally {
      PlacementGroups.removePlacementGroup(given.getId());
    }
  }

  @Test
  void aConstructorsExceptionIsThrownByTheDriver() {
    assertThatThrownBy(() -> RayActorGroup.builder(Fragile::new).gpus(1).create(2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this shard's weights are missing");
  }

  @Test
  void anActorWhoseJvmDoesNotStartIsReported() {
    assertThatThrownBy(
            () ->
                RayActorGroup.builder(Probe::new)
                    .gpus(1)
                    .jvmOption("-Xmx1k")
                    .timeout(Duration.ofSeconds(5))
                    .create(1))
        .isInstanceOfAny(CollectiveException.class, IllegalStateException.class)
        .hasMessageContaining("start");
  }

  @Test
  void settingsThatMakeNoSenseAreRefused() {
    assertThatThrownBy(() -> RayActorGroup.builder(Probe::new).gpus(0))
        .hasMessage("each actor was to get 0.0 GPU, must be more than 0");
    assertThatThrownBy(() -> RayActorGroup.builder(Probe::new).heap("lots"))
        .hasMessage("heap is 'lots', must be a number of bytes or end in k, m or g, such as 2g");
    assertThatThrownBy(() -> RayActorGroup.builder(Probe::new).timeout(Duration.ZERO))
        .hasMessage("timeout is PT0S, must be 1 s to 1 day");
    assertThatThrownBy(() -> RayActorGroup.builder(Probe::new).cpus(1).create(0))
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
