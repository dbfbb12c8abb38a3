package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import io.ray.api.call.ActorCreator;
import io.ray.api.exception.RayException;
import io.ray.api.function.RayFunc0;
import io.ray.api.id.ActorId;
import io.ray.api.placementgroup.PlacementGroup;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class RayActorGroupTest {

  @Test
  void oneActorThatCannotBeKilledDoesNotSpareTheOthers() {
    List<String> done = new ArrayList<>();
    IllegalStateException first = new IllegalStateException("first");
    IllegalStateException second = new IllegalStateException("second");
    List<Runnable> steps =
        List.of(
            () -> {
              throw first;
            },
            () -> done.add("kill"),
            () -> {
              throw second;
            },
            () -> done.add("give room back"));
    assertThatThrownBy(() -> RayActorGroup.runAll(steps)).isSameAs(first);
    assertThat(first).hasSuppressedException(second);
    assertThat(done).containsExactly("kill", "give room back");
  }

  @Test
  void closingAfterTheEndOfRayIsNoError() {
    RayActorGroup<CollectiveActor> group =
        new RayActorGroup<>(placement(List.of()), true, List.of());
    assertThatCode(group::close).doesNotThrowAnyException();
  }

  @Test
  void actorsThatCouldNotBeKilledCanBeKilledLater() {
    ActorHandle<CollectiveActor> one = handle();
    ActorHandle<CollectiveActor> two = handle();
    for (boolean owned : List.of(true, false)) {
      RayActorGroup<CollectiveActor> group = new RayActorGroup<>(null, owned, List.of(one, two));
      try (StubRay ray = new StubRay()) {
        ray.refusals.add(new IllegalStateException("no answer"));
        assertThatThrownBy(group::kill).hasMessage("no answer");
        assertThat(ray.killed).containsExactly(two);
        ray.killed.clear();
        group.kill();
        assertThat(ray.killed).containsExactly(one, two);
        group.kill();
        assertThat(ray.killed).hasSize(2);
      }
    }
  }

  @Test
  void actorsThatLiveOnCannotBeKilledWithoutRay() {
    RayActorGroup<CollectiveActor> found = new RayActorGroup<>(null, false, List.of(handle()));
    found.close();
    assertThatThrownBy(found::kill)
        .isExactlyInstanceOf(IllegalStateException.class)
        .hasMessage(
            "these actors outlive their driver, and only a driver of their cluster can kill them: Ray is not initialised here");
    try (StubRay ray = new StubRay()) {
      found.kill();
      assertThat(ray.killed).hasSize(1);
    }
    assertThatCode(found::kill).doesNotThrowAnyException();
  }

  private static ActorHandle<CollectiveActor> handle() {
    ActorId id = ActorId.fromRandom();
    return () -> id;
  }

  private static RayActorGroup.Builder<Member> actors() {
    return RayActorGroup.builder(Member::new);
  }

  @Test
  void actorsNeedAResource() {
    refused(2, actors(), "the actors have no resource: use Builder.gpus, cpus or resource");
    assertThatThrownBy(() -> actors().gpus(0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("each actor was to get 0.0 GPU, must be more than 0");
  }

  @Test
  void aSettingReplacesTheEarlierOneAndDoesNotReachEarlierGroups() {
    RayActorGroup.Builder<Member> actors = actors().cpus(1).name("a").nodes(2).heap("1g");
    ActorSettings before = actors.settings();
    ActorSettings after =
        actors
            .cpus(2)
            .gpus(0.5)
            .name("b")
            .pack()
            .detached()
            .timeout(Duration.ofSeconds(5))
            .jvmOption("-ea")
            .settings();
    assertThat(before.resources()).containsExactly(Map.entry("CPU", 1.0));
    assertThat(before.name()).isEqualTo("a");
    assertThat(before.nodes()).isEqualTo(NodeCount.exactly(2));
    assertThat(before.detached()).isFalse();
    assertThat(before.timeout()).isEqualTo(RayActorGroup.Builder.TIMEOUT_DEFAULT);
    assertThat(before.jvmOptions()).contains("-Xmx1g").doesNotContain("-ea");
    assertThat(after.resources()).containsExactly(Map.entry("CPU", 2.0), Map.entry("GPU", 0.5));
    assertThat(after.name()).isEqualTo("b");
    assertThat(after.nodes()).isEqualTo(NodeCount.PACKED);
    assertThat(after.detached()).isTrue();
    assertThat(after.timeout()).isEqualTo(Duration.ofSeconds(5));
    assertThat(after.jvmOptions()).contains("-Xmx1g", "-ea");
  }

  /** An argument that is a number cannot be taken for the number of actors. */
  @Test
  void argumentsOfConstructorsAreNotTheNumberOfActors() {
    List<RayActorGroup.Builder<Sized>> builders =
        List.of(
            RayActorGroup.builder(Sized::new, 7),
            RayActorGroup.builder(Sized::new, 7, 8L),
            RayActorGroup.builder(Sized::new, 7, 8L, "nine"),
            RayActorGroup.builderByRank(rank -> Ray.actor(Sized::new, rank)));
    for (RayActorGroup.Builder<Sized> builder : builders) {
      assertThatThrownBy(() -> builder.cpus(1).create(0))
          .hasMessage("count is 0, must be 1 or more");
    }
  }

  @Test
  void aBuilderIsCheckedForEachNumberOfActors() {
    RayActorGroup.Builder<Member> actors = actors().cpus(1).nodes(3);
    refused(2, actors, "2 actors cannot be on 3 nodes");
    refused(1, actors, "1 actors cannot be on 3 nodes");
  }

  @Test
  void detachedActorsNeedAName() {
    assertThatThrownBy(() -> actors().cpus(1).detached().create(2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("detached actors need a name, or no later driver finds them: use Builder.name");
    assertThatThrownBy(() -> actors().name(" "))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the actors' name is empty");
  }

  @Test
  void onlyActorsThatAreToBePinnedAreTold() {
    RayActorGroup.Builder<Member> actors = actors().heap("2g");
    assertThat(jvmOptions(actors)).contains("-Xmx2g").doesNotContain("-Dnvrar.pin=true");
    assertThat(jvmOptions(actors.pinned()))
        .containsAll(ActorJvm.REQUIRED)
        .contains("-Xmx2g", "-Dnvrar.pin=true");
  }

  @Test
  void aCollectorThatTheUserChoosesIsTheOnlyOne() {
    assertThat(jvmOptions(actors())).contains("-XX:+UseSerialGC");
    assertThat(jvmOptions(actors().jvmOption("-XX:+UseZGC").heap("1g")))
        .filteredOn(option -> option.matches("-XX:.*GC"))
        .containsExactly("-XX:+UseZGC");
    assertThat(jvmOptions(actors().jvmOption("-XX:+UseSerialGC")))
        .containsOnlyOnce("-XX:+UseSerialGC");
  }

  @Test
  void noExceptionOfRaysComesOutOfAConstructor() {
    assertThat(ActorCreation.startFailure(new RayException("task", new RayException("lost"))))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("an actor's constructor failed: lost");
    RuntimeException own = new IllegalStateException("no model");
    assertThat(
            ActorCreation.startFailure(new RayException("outer", new RayException("inner", own))))
        .isSameAs(own);
  }

  private static List<String> jvmOptions(RayActorGroup.Builder<Member> actors) {
    StubRay ray = new StubRay();
    try (ray) {
      Creator creator = new Creator();
      actors.settings().applyTo(creator, 0);
      return creator.jvmOptions;
    }
  }

  @Test
  void fewerActorsThanNodesAreRefused() {
    refused(3, actors().cpus(1).nodes(4), "3 actors cannot be on 4 nodes");
    assertThatThrownBy(() -> actors().nodes(0)).hasMessage("nodes is 0, must be 1 or more");
  }

  @Test
  void detachedActorsAndThoseOfAPlacementGroupHaveNoOtherNodes() {
    refused(
        2,
        actors().cpus(1).name("d").detached().nodes(2),
        "detached actors are on one node: without Builder.placementGroup they cannot be on 2 nodes");
    refused(
        2,
        actors().cpus(1).spread().placementGroup(placement(List.of())),
        "the bundles of Builder.placementGroup have their nodes, so the actors cannot be told to be on any nodes");
  }

  private static void refused(int count, RayActorGroup.Builder<Member> actors, String sentence) {
    assertThatThrownBy(() -> actors.create(count))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  void aPlacementGroupMustHoldAllActors() {
    PlacementGroup given = placement(List.of(Map.of("GPU", 1.0, "CPU", 2.0), Map.of("CPU", 4.0)));
    assertThatThrownBy(() -> actors().cpus(1).placementGroup(given).create(3))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("3 actors need 3 bundles, one each; placement group 'given' has 2");
    assertThatThrownBy(() -> actors().gpus(1).cpus(2).placementGroup(given).create(2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "each actor gets 2 CPU and 1 GPU, bundle 1 of placement group 'given' has 4 CPU");
  }

  @Test
  void aCountOfNoneIsRefusedInAllForms() {
    assertThatThrownBy(() -> actors().cpus(1).create(0))
        .hasMessage("count is 0, must be 1 or more");
    assertThatThrownBy(() -> RayActorGroup.find(Member.class, "tp", 0))
        .hasMessage("count is 0, must be 1 or more");
  }

  /** One that answers what it is asked without Ray. */
  private static PlacementGroup placement(List<Map<String, Double>> bundles) {
    return (PlacementGroup)
        Proxy.newProxyInstance(
            PlacementGroup.class.getClassLoader(),
            new Class<?>[] {PlacementGroup.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "getBundles" -> bundles;
                  case "getName" -> "given";
                  default -> throw new AssertionError(method + " was called without Ray");
                });
  }

  private static final class Member implements CollectiveActor {}

  private static final class Sized implements CollectiveActor {
    Sized(int size) {}

    Sized(int size, long more) {}

    Sized(int size, long more, String name) {}
  }

  /** Keeps the JVM options that it is told. */
  private static final class Creator extends ActorCreator<Member> {
    private List<String> jvmOptions = List.of();

    Creator() {
      super((RayFunc0<Member>) Member::new, new Object[0]);
    }

    @Override
    public ActorCreator<Member> setJvmOptions(List<String> options) {
      jvmOptions = options;
      return super.setJvmOptions(options);
    }
  }
}
