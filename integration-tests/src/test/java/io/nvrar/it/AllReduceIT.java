package io.nvrar.it;

import static io.nvrar.it.Calls.all;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.ReduceOp;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code test_allreduce.py} of {@code ray.util.collective}. */
@RayTest
class AllReduceIT {

  private static List<ActorHandle<Probe>> actors;

  @BeforeAll
  static void actors(RayCluster cluster) {
    actors = cluster.probes();
  }

  @ParameterizedTest
  @ValueSource(strings = {"default", "test", "123?34!"})
  void sumsInAGroupOfAnyName(String name) {
    try (RayCollectiveGroup group = RayCollectives.createGroup(name, actors)) {
      assertThat(results(group.name(), 10, DataType.FLOAT32, ReduceOp.SUM)).containsOnly("");
    }
  }

  @Test
  void sumsArraysOfAnySize() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("sizes", actors)) {
      for (int count : new int[] {2, 1 << 5, 1 << 10, 1 << 15, 1 << 20, (1 << 20) + 3}) {
        assertThat(results(group.name(), count, DataType.FLOAT32, ReduceOp.SUM))
            .as("%d elements", count)
            .containsOnly("");
      }
    }
  }

  @ParameterizedTest
  @MethodSource("everyTypeAndOperation")
  void reducesEveryTypeByEveryOperation(DataType type, ReduceOp op) {
    try (RayCollectiveGroup group = RayCollectives.createGroup("types", actors)) {
      assertThat(results(group.name(), 1_000, type, op)).containsOnly("");
    }
  }

  static Stream<Arguments> everyTypeAndOperation() {
    return Stream.of(DataType.values())
        .flatMap(type -> Stream.of(ReduceOp.values()).map(op -> Arguments.of(type, op)));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void sumsInGroupsOfEverySize(int worldSize) {
    List<ActorHandle<Probe>> members = actors.subList(0, worldSize);
    try (RayCollectiveGroup group = RayCollectives.createGroup("members", members)) {
      assertThat(
              all(
                  members,
                  actor ->
                      actor
                          .task(Probe::checkAllReduce, group.name(), 777, "FLOAT32", "SUM")
                          .remote()))
          .containsOnly("");
    }
  }

  @Test
  void aDestroyedGroupRaisesAndANewOneOfTheNameWorks() {
    try (RayCollectiveGroup group = RayCollectives.createGroup("destroyed", actors)) {
      assertThat(results(group.name(), 10, DataType.FLOAT32, ReduceOp.SUM)).containsOnly("");
      all(actors, actor -> actor.task(Probe::keep, "destroyed").remote());
    }
    for (ActorHandle<Probe> actor : actors) {
      assertThatThrownBy(
              () ->
                  actor
                      .task(Probe::checkAllReduce, "destroyed", 10, "FLOAT32", "SUM")
                      .remote()
                      .get())
          .hasRootCauseInstanceOf(IllegalArgumentException.class)
          .rootCause()
          .hasMessageContaining("not a member of a group named 'destroyed'");
      assertThatThrownBy(() -> actor.task(Probe::useKept, "destroyed").remote().get())
          .hasRootCauseInstanceOf(IllegalStateException.class)
          .rootCause()
          .hasMessageContaining("group 'destroyed' was destroyed");
    }
    try (RayCollectiveGroup group = RayCollectives.createGroup("destroyed", actors)) {
      assertThat(results(group.name(), 10, DataType.FLOAT32, ReduceOp.SUM)).containsOnly("");
    }
  }

  @Test
  void fiveGroupsOfTheSameActorsSumAtOnce() {
    List<RayCollectiveGroup> groups = new ArrayList<>();
    try {
      for (int i = 0; i < 5; i++) {
        groups.add(RayCollectives.createGroup("multi" + i, actors));
      }
      for (int round = 0; round < 3; round++) {
        for (RayCollectiveGroup group : groups) {
          assertThat(results(group.name(), 100 + round, DataType.BFLOAT16, ReduceOp.SUM))
              .containsOnly("");
        }
      }
    } finally {
      groups.forEach(RayCollectiveGroup::close);
    }
  }

  private static List<String> results(String name, int count, DataType type, ReduceOp op) {
    return all(
        actors,
        actor -> actor.task(Probe::checkAllReduce, name, count, type.name(), op.name()).remote());
  }
}
