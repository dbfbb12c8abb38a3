package io.nvrar.it;

import static io.nvrar.it.actors.Calls.all;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.exception.RayTaskException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code test_basic_apis.py} of {@code ray.util.collective}. */
@RayTest
class GroupBasicsIT {

  private static final Call SUM = Call.of(Collective.ALL_REDUCE, DataType.FLOAT32, 100);

  private static List<ActorHandle<Probe>> actors;

  @BeforeAll
  static void actors(RayCluster cluster) {
    actors = cluster.probes();
  }

  @ParameterizedTest
  @ValueSource(strings = {"default", "test", "123?34!", "ünïcode name"})
  void aGroupMayHaveAnyName(String name) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors)) {
      assertThat(group.name()).isEqualTo(name);
      assertThat(group.worldSize()).isEqualTo(4);
      assertThat(group.failure()).isNull();
      assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, name).remote()))
          .containsOnly(true);
    }
    assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, name).remote()))
        .containsOnly(false);
  }

  @Test
  void tenGroupsLiveOnTheSameActorsAtOnce() {
    List<RayCollectiveGroup> groups = new ArrayList<>();
    try {
      for (int i = 0; i < 10; i++) {
        groups.add(RayCollectives.createGroup("group" + i, actors));
      }
      for (int i = 0; i < 10; i++) {
        String name = "group" + i;
        assertThat(all(actors, actor -> actor.task(Probe::rank, name).remote()))
            .containsExactly(0, 1, 2, 3);
        assertThat(Calls.wrong(actors, name, SUM)).containsOnly("");
      }
    } finally {
      groups.forEach(RayCollectiveGroup::close);
    }
  }

  @Test
  void anActorHasAnotherRankInAnotherGroup() {
    List<ActorHandle<Probe>> permuted =
        List.of(actors.get(3), actors.get(1), actors.get(0), actors.get(2));
    try (RayCollectiveGroup inOrder = RayCollectives.createGroup("in order", actors);
        RayCollectiveGroup other = RayCollectives.createGroup("permuted", permuted);
        RayCollectiveGroup pair =
            RayCollectives.createGroup("pair", List.of(actors.get(2), actors.get(1)))) {
      assertThat(all(actors, actor -> actor.task(Probe::rank, inOrder.name()).remote()))
          .containsExactly(0, 1, 2, 3);
      assertThat(all(actors, actor -> actor.task(Probe::rank, other.name()).remote()))
          .containsExactly(2, 1, 3, 0);
      assertThat(all(actors, actor -> actor.task(Probe::rank, pair.name()).remote()))
          .containsExactly(-1, 1, 0, -1);
      Call broadcast = Call.of(Collective.BROADCAST, DataType.FLOAT32, 33).root(1);
      assertThat(Calls.wrong(actors, "permuted", broadcast)).containsOnly("");
    }
  }

  @Test
  void theHalvesOfASplitWorkByThemselvesAndTheGroupAfterwards() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("whole", actors)) {
      // Rank r gives 2 to the power r, and the higher rank of a half becomes its rank 0.
      assertThat(all(actors, actor -> actor.task(Probe::sumOfHalf, group.name()).remote()))
          .containsExactly(
              "rank 1 of 2 in whole/0 has 5",
              "rank 1 of 2 in whole/1 has 10",
              "rank 0 of 2 in whole/0 has 5",
              "rank 0 of 2 in whole/1 has 10");
      assertThat(Calls.wrong(actors, group.name(), SUM)).containsOnly("");
    }
  }

  @Test
  void theWorldSizeOfAnUnknownGroupIsMinusOne() {
    try (RayCollectiveGroup group =
        RayCollectives.createGroup("size", actors.subList(0, 2), GroupConfig.defaults())) {
      assertThat(all(actors, actor -> actor.task(Probe::worldSize, group.name()).remote()))
          .containsExactly(2, 2, -1, -1);
      assertThat(all(actors, actor -> actor.task(Probe::rank, "unknown").remote()))
          .containsOnly(-1);
      assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, "unknown").remote()))
          .containsOnly(false);
    }
  }

  @Test
  void membersThatDestroyAGroupMayMakeItAgain() {
    for (int i = 0; i < 3; i++) {
      RayCollectiveGroup group = RayCollectives.createGroup("again", actors);
      assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, "again").remote()))
          .containsOnly(true);
      assertThat(all(actors, actor -> actor.task(Probe::destroyGroup, "again").remote()))
          .containsOnly(true);
      assertThat(all(actors, actor -> actor.task(Probe::isGroupInitialized, "again").remote()))
          .containsOnly(false);
      group.close();
      group.close();
    }
  }

  @Test
  void destroyingAnUnknownGroupNamesTheKnownOnes() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("known", actors)) {
      assertThat(group.worldSize()).isEqualTo(4);
      assertThatThrownBy(() -> actors.get(1).task(Probe::destroyGroup, "unknown").remote().get())
          .isInstanceOf(RayTaskException.class)
          .cause()
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "this actor is not a member of a group named 'unknown'; its groups are: 'known'");
    }
  }

  @Test
  void aLiveGroupsNameIsRefusedAndTheGroupStaysWhole() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("taken", actors)) {
      assertThatThrownBy(() -> RayCollectives.createGroup("taken", actors))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("already a member of a group named 'taken'");
      assertThat(group.failure()).isNull();
      assertThat(Calls.wrong(actors, "taken", SUM)).containsOnly("");
    }
  }

  @Test
  void theDriverIsNoMember() {
    assertThatThrownBy(() -> RayCollectives.group("default"))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith("this is not an actor");
  }
}
