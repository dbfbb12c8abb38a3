package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.nvrar.ray.RayActorGroup.Options;
import io.ray.api.ActorHandle;
import io.ray.api.call.ActorCreator;
import io.ray.api.exception.RayException;
import io.ray.api.function.RayFunc0;
import io.ray.api.id.ActorId;
import io.ray.api.placementgroup.PlacementGroup;
import java.lang.reflect.Proxy;
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

  @Test
  void detachedActorsNeedAName() {
    assertThatThrownBy(() -> RayActorGroup.create(Member::new, 2, Options.cpus(1).detached()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("detached actors need a name, or no later driver finds them: use Options.name");
    assertThatThrownBy(() -> Options.cpus(1).name(" "))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the actors' name is empty");
  }

  @Test
  void onlyActorsThatAreToBePinnedAreTold() {
    Options options = Options.gpus(1).heap("2g");
    assertThat(jvmOptions(options)).contains("-Xmx2g").doesNotContain("-Dnvrar.pin=true");
    assertThat(jvmOptions(options.pinned()))
        .containsAll(Options.JVM_OPTIONS)
        .contains("-Xmx2g", "-Dnvrar.pin=true");
  }

  @Test
  void aCollectorThatTheUserChoosesIsTheOnlyOne() {
    Options options = Options.gpus(1);
    assertThat(jvmOptions(options)).contains("-XX:+UseSerialGC");
    assertThat(jvmOptions(options.jvmOption("-XX:+UseZGC").heap("1g")))
        .filteredOn(option -> option.matches("-XX:.*GC"))
        .containsExactly("-XX:+UseZGC");
    assertThat(jvmOptions(options.jvmOption("-XX:+UseSerialGC")))
        .containsOnlyOnce("-XX:+UseSerialGC");
  }

  @Test
  void noExceptionOfRaysComesOutOfAConstructor() {
    assertThat(RayActorGroup.startFailure(new RayException("task", new RayException("lost"))))
        .isInstanceOf(CollectiveException.class)
        .hasMessage("an actor's constructor failed: lost");
    RuntimeException own = new IllegalStateException("no model");
    assertThat(
            RayActorGroup.startFailure(new RayException("outer", new RayException("inner", own))))
        .isSameAs(own);
  }

  private static List<String> jvmOptions(Options options) {
    StubRay ray = new StubRay();
    try (ray) {
      Creator creator = new Creator();
      options.applyTo(creator, 0);
      return creator.jvmOptions;
    }
  }

  @Test
  void fewerActorsThanNodesAreRefused() {
    refused(3, Options.cpus(1).nodes(4), "3 actors cannot be on 4 nodes");
    assertThatThrownBy(() -> Options.cpus(1).nodes(0)).hasMessage("nodes is 0, must be 1 or more");
  }

  @Test
  void detachedActorsAndThoseOfAPlacementGroupHaveNoOtherNodes() {
    refused(
        2,
        Options.cpus(1).name("d").detached().nodes(2),
        "detached actors are on one node: without Options.placementGroup they cannot be on 2 nodes");
    refused(
        2,
        Options.cpus(1).spread().placementGroup(placement(List.of())),
        "the bundles of Options.placementGroup have their nodes, so the actors cannot be told to be on any nodes");
  }

  private static void refused(int count, Options options, String sentence) {
    assertThatThrownBy(() -> RayActorGroup.create(Member::new, count, options))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  void aPlacementGroupMustHoldAllActors() {
    PlacementGroup given = placement(List.of(Map.of("GPU", 1.0, "CPU", 2.0), Map.of("CPU", 4.0)));
    assertThatThrownBy(
            () -> RayActorGroup.create(Member::new, 3, Options.cpus(1).placementGroup(given)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("3 actors need 3 bundles, one each; placement group 'given' has 2");
    assertThatThrownBy(
            () ->
                RayActorGroup.create(
                    Member::new, 2, Options.gpus(1).resource("CPU", 2).placementGroup(given)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "each actor gets 2 CPU and 1 GPU, bundle 1 of placement group 'given' has 4 CPU");
  }

  @Test
  void aCountOfNoneIsRefusedInAllForms() {
    assertThatThrownBy(() -> RayActorGroup.create(Member::new, 0, Options.cpus(1)))
        .hasMessage("count is 0, must be 1 or more");
    assertThatThrownBy(() -> RayActorGroup.find("tp", 0))
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
