package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupMismatchException;
import io.nvrar.ReduceOp;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("contract")
class NewGroupTest {

  /** What each member's newGroup returned, in the order of the parent's ranks. */
  private static List<@Nullable CollectiveGroup> newGroup(Members members, int... ranks) {
    List<@Nullable CollectiveGroup> children =
        Collections.synchronizedList(
            new ArrayList<>(Collections.nCopies(members.groups.size(), null)));
    members.onAll(group -> children.set(group.rank(), group.newGroup(ranks).orElse(null)));
    return children;
  }

  private static float sum(CollectiveGroup group, float value) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      float[] sum = {value};
      buffer.copyFrom(sum);
      group.allReduce(buffer, ReduceOp.SUM, group.stream());
      buffer.copyTo(sum);
      return sum[0];
    }
  }

  @Test
  void theRanksOfTheNewGroupFollowTheOrderInWhichTheyAreNamed() {
    try (Members world = Members.join("tp", 4, Members.config().build())) {
      List<@Nullable CollectiveGroup> children = newGroup(world, 3, 0);
      assertThat(children.get(1)).isNull();
      assertThat(children.get(2)).isNull();
      CollectiveGroup first = Objects.requireNonNull(children.get(3));
      CollectiveGroup second = Objects.requireNonNull(children.get(0));
      assertThat(first.rank()).isEqualTo(0);
      assertThat(second.rank()).isEqualTo(1);
      assertThat(first.name()).isEqualTo("tp/3,0");
      try (Members pair = Members.of(List.of(first, second))) {
        pair.onAll(group -> assertThat(sum(group, 2)).isEqualTo(4));
        world.onAll(group -> assertThat(sum(group, 1)).isEqualTo(4));
      }
      List<@Nullable CollectiveGroup> all = newGroup(world, 0, 1, 2, 3);
      try (Members again = Members.of(all.stream().map(Objects::requireNonNull).toList())) {
        again.onAll(group -> assertThat(sum(group, 1)).isEqualTo(4));
      }
      List<@Nullable CollectiveGroup> one = newGroup(world, 2);
      try (CollectiveGroup alone = Objects.requireNonNull(one.get(2))) {
        assertThat(sum(alone, 5)).isEqualTo(5);
      }
    }
  }

  @Test
  void badRanksAreOneSentenceAndCostTheGroupNothing() {
    try (Members world = Members.join("bad", 2, Members.config().build())) {
      CollectiveGroup group = world.rank(1);
      refused(
          () -> group.newGroup(),
          "newGroup names no rank, it needs one or more of the ranks 0 to 1 of group 'bad'");
      refused(
          () -> group.newGroup(0, 2), "newGroup names rank 2, the ranks of group 'bad' are 0 to 1");
      refused(
          () -> group.newGroup(-1), "newGroup names rank -1, the ranks of group 'bad' are 0 to 1");
      refused(
          () -> group.newGroup(1, 0, 1),
          "newGroup names rank 1 of group 'bad' twice, which can be one member of the new group only");
      assertThatThrownBy(() -> group.batch(() -> group.newGroup(0)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("newGroup was called inside a batch");
      world.onAll(member -> assertThat(sum(member, 1)).isEqualTo(2));
    }
  }

  private static void refused(Runnable call, String sentence) {
    assertThatThrownBy(call::run)
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  void membersThatNameDifferentRanksAreToldSo() throws Exception {
    try (Members world = Members.join("differ", 3, Members.config().build())) {
      Future<?> zero = world.start(() -> world.rank(0).newGroup(0, 1));
      Thread.sleep(200);
      Future<?> one = world.start(() -> world.rank(1).newGroup(1, 0));
      for (Future<?> member : List.of(zero, one)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining(
                "the ranks differ at split #1 of group 'differ': rank 0 calls newGroup of ranks 0, 1, rank 1 newGroup of ranks 1, 0");
      }
      assertThatThrownBy(() -> world.rank(2).newGroup(0, 1))
          .isInstanceOf(GroupMismatchException.class);
    }
  }

  @Test
  void aMemberThatSplitsInsteadIsToldSo() throws Exception {
    try (Members world = Members.join("other", 2, Members.config().build())) {
      Future<?> zero = world.start(() -> world.rank(0).newGroup(0, 1));
      Thread.sleep(200);
      Future<?> one = world.start(() -> world.rank(1).split(0, 1));
      for (Future<?> member : List.of(zero, one)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining("rank 0 calls newGroup of ranks 0, 1, rank 1 split");
      }
    }
  }
}
