package io.nvrar.it;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import io.nvrar.it.actors.Call;
import io.nvrar.it.actors.Calls;
import io.nvrar.it.actors.Collective;
import io.nvrar.it.actors.Probe;
import io.nvrar.it.cluster.RayCluster;
import io.nvrar.it.cluster.RayTest;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What {@code test_allreduce.py} and its like for the other collectives of {@code
 * ray.util.collective} test, for each collective here.
 */
@RayTest
class CollectivesIT {

  private static final int MAX_WORLD_SIZE = 4;

  /** Theirs, where [2, 2] is 4 elements and [5, 5, 5] is 125, and none, and an odd large one. */
  private static final int[] COUNTS = {
    0, 2, 4, 1 << 5, 125, 1 << 10, 1 << 15, 5 * 9 * 10 * 85, 1 << 20, (1 << 20) + 3
  };

  private static List<ActorHandle<Probe>> actors;

  @BeforeAll
  static void actors(RayCluster cluster) {
    actors = cluster.probes();
  }

  static Stream<Arguments> everyCollectiveInEveryWorld() {
    return Arrays.stream(Collective.values())
        .flatMap(
            collective ->
                IntStream.rangeClosed(collective.leastWorldSize(), MAX_WORLD_SIZE)
                    .mapToObj(worldSize -> Arguments.of(collective, worldSize)));
  }

  @ParameterizedTest
  @MethodSource("everyCollectiveInEveryWorld")
  void isRightForArraysOfAnySizeFromAnyRoot(Collective collective, int worldSize) {
    try (RayCollectiveGroup group = group(worldSize)) {
      for (int count : COUNTS) {
        // To make and to compare a million elements takes longer than to reduce them.
        int roots = collective.rooted() && count < 1 << 20 ? worldSize : 1;
        for (int root = 0; root < roots; root++) {
          assertRight(group, Call.of(collective, DataType.FLOAT32, count).root(root));
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("everyCollectiveInEveryWorld")
  void isRightForEveryTypeByEveryOperation(Collective collective, int worldSize) {
    ReduceOp[] ops = collective.reduces() ? ReduceOp.values() : new ReduceOp[] {ReduceOp.SUM};
    try (RayCollectiveGroup group = group(worldSize)) {
      for (DataType type : DataType.values()) {
        for (ReduceOp op : ops) {
          if (op != ReduceOp.AVG || type.isFloat()) {
            assertRight(group, Call.of(collective, type, 1_000).by(op));
          }
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"default", "test", "123?34!"})
  void areRightInAGroupOfAnyName(String name) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors)) {
      assertAllRightIn(group, 10);
    }
  }

  @Test
  void areRightInFiveGroupsOfTheSameActorsInTurn() {
    List<RayCollectiveGroup> groups = new ArrayList<>();
    try {
      for (int i = 0; i < 5; i++) {
        groups.add(RayCollectives.createGroup("multi" + i, actors));
      }
      for (int round = 0; round < 3; round++) {
        for (RayCollectiveGroup group : groups) {
          assertAllRightIn(group, 100 + round);
        }
      }
    } finally {
      groups.forEach(RayCollectiveGroup::close);
    }
  }

  @Test
  void raiseInADestroyedGroupAndAreRightInANewOneOfTheName() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("destroyed", actors)) {
      assertAllRightIn(group, 10);
      Calls.all(actors, actor -> actor.task(Probe::keep, "destroyed").remote());
    }
    for (Collective collective : Collective.values()) {
      Call call = Call.of(collective, DataType.FLOAT32, 10);
      for (ActorHandle<Probe> actor : actors) {
        assertThat(Calls.failure(actor.task(Probe::check, "destroyed", call).remote()))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("not a member of a group named 'destroyed'");
        assertThat(Calls.failure(actor.task(Probe::checkKept, "destroyed", call).remote()))
            .isInstanceOf(IllegalStateException.class)
            .hasMessageContaining("group 'destroyed' was destroyed");
      }
    }
    try (RayCollectiveGroup group = RayCollectives.createGroup("destroyed", actors)) {
      assertAllRightIn(group, 10);
    }
  }

  static Stream<Collective> everyCollectiveWithARoot() {
    return Arrays.stream(Collective.values()).filter(Collective::rooted);
  }

  @ParameterizedTest
  @MethodSource("everyCollectiveWithARoot")
  void refuseARankThatTheGroupHasNot(Collective collective) {
    Call call = Call.of(collective, DataType.FLOAT32, 10);
    try (RayCollectiveGroup group = group(2)) {
      for (int root : new int[] {-1, 2, 3}) {
        for (ActorHandle<Probe> actor : actors.subList(0, 2)) {
          assertThat(
                  Calls.failure(actor.task(Probe::check, group.name(), call.root(root)).remote()))
              .isInstanceOf(IllegalArgumentException.class)
              .hasMessageContaining(Integer.toString(root));
        }
      }
      assertRight(group, call);
    }
  }

  static Stream<Collective> everyCollectiveWithBuffersThatMustFit() {
    return Arrays.stream(Collective.values()).filter(Collective::fits);
  }

  @ParameterizedTest
  @MethodSource("everyCollectiveWithBuffersThatMustFit")
  void refuseBuffersThatDoNotFitEachOther(Collective collective) {
    Call call = Call.of(collective, DataType.FLOAT32, 10);
    try (RayCollectiveGroup group = group(3)) {
      for (ActorHandle<Probe> actor : actors.subList(0, 3)) {
        assertThat(Calls.failure(actor.task(Probe::checkMisfits, group.name(), call).remote()))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("10");
      }
      assertRight(group, call);
    }
  }

  private static RayCollectiveGroup group(int worldSize) {
    return RayCollectives.createGroup("of " + worldSize, actors.subList(0, worldSize));
  }

  private static void assertRight(RayCollectiveGroup group, Call call) {
    assertThat(Calls.wrong(actors.subList(0, group.worldSize()), group.name(), call))
        .as("%s", call)
        .containsOnly("");
  }

  private static void assertAllRightIn(RayCollectiveGroup group, int count) {
    for (Collective collective : Collective.values()) {
      assertRight(group, Call.of(collective, DataType.FLOAT32, count));
    }
  }
}
