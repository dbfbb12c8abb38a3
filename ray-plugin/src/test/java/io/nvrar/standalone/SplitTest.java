package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.OwnThreads;
import io.nvrar.internal.group.Splitting;
import io.nvrar.internal.wire.GroupSpec;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("contract")
class SplitTest {

  @AfterEach
  void nothingStays() {
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);
  }

  /** What each member's split returned, in the order of the parent's ranks. */
  private static List<@Nullable CollectiveGroup> split(
      Members members, IntUnaryOperator color, IntUnaryOperator key) {
    int worldSize = members.groups.size();
    List<@Nullable CollectiveGroup> children =
        Collections.synchronizedList(new ArrayList<>(Collections.nCopies(worldSize, null)));
    members.onAll(
        group ->
            children.set(
                group.rank(),
                group
                    .split(color.applyAsInt(group.rank()), key.applyAsInt(group.rank()))
                    .orElse(null)));
    return children;
  }

  private static CollectiveGroup of(List<@Nullable CollectiveGroup> groups, int rank) {
    return Objects.requireNonNull(groups.get(rank));
  }

  private static void close(List<@Nullable CollectiveGroup> groups) {
    List<CollectiveGroup> there = new ArrayList<>();
    groups.stream().filter(Objects::nonNull).forEach(there::add);
    try (Members closing = Members.of(there)) {
      assertThat(closing.groups).isNotEmpty();
    }
  }

  private static float sum(CollectiveGroup group, float value) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
      float[] sum = {value};
      buffer.copyFrom(sum);
      group.allReduce(buffer);
      buffer.copyTo(sum);
      return sum[0];
    }
  }

  @Test
  void eightRanksFormTensorPipelineAndDataParallelGroups() {
    // Rank = 4 * data + 2 * stage + shard, as Megatron numbers them.
    try (Members world = Members.join("world", 8, Members.config().build())) {
      List<@Nullable CollectiveGroup> tp = split(world, r -> r / 2, r -> r);
      List<@Nullable CollectiveGroup> pp = split(world, r -> r % 2 + 2 * (r / 4), r -> r);
      List<@Nullable CollectiveGroup> dp = split(world, r -> r % 4, r -> r);
      world.onAll(
          group -> {
            int r = group.rank();
            for (int round = 0; round < 20; round++) {
              assertThat(sum(of(tp, r), r)).isEqualTo(2 * (r - r % 2) + 1);
              assertThat(sum(of(pp, r), r)).isEqualTo(2 * (4 * (r / 4) + r % 2) + 2);
              assertThat(sum(of(dp, r), r)).isEqualTo(2 * (r % 4) + 4);
              assertThat(sum(group, r)).isEqualTo(28);
            }
            assertThat(of(tp, r).name()).isEqualTo("world/" + r / 2);
            assertThat(of(tp, r).rank()).isEqualTo(r % 2);
            assertThat(of(pp, r).rank()).isEqualTo(r / 2 % 2);
            assertThat(of(dp, r).rank()).isEqualTo(r / 4);
            assertThat(of(dp, r).worldSize()).isEqualTo(2);
          });
      for (List<@Nullable CollectiveGroup> children : List.of(tp, pp, dp)) {
        close(children);
      }
    }
  }

  @Test
  void keysDecideTheNewRanksAndEqualKeysKeepTheOldOrder() {
    try (Members world = Members.join("keys", 4, Members.config().build())) {
      List<@Nullable CollectiveGroup> reversed = split(world, r -> 0, r -> -r);
      List<@Nullable CollectiveGroup> same = split(world, r -> 7, r -> 5);
      for (int r = 0; r < 4; r++) {
        assertThat(of(reversed, r).rank()).isEqualTo(3 - r);
        assertThat(of(same, r).rank()).isEqualTo(r);
      }
      close(reversed);
      close(same);
    }
  }

  @Test
  void aNegativeColorJoinsNoGroup() {
    try (Members world = Members.join("none", 3, Members.config().build())) {
      List<@Nullable CollectiveGroup> children = split(world, r -> r == 1 ? -1 : 3, r -> 0);
      assertThat(children.get(1)).isNull();
      assertThat(of(children, 2).rank()).isEqualTo(1);
      close(children);
      assertThat(split(world, r -> -1, r -> 0)).containsOnlyNulls();
    }
  }

  @Test
  void aSplitGroupCanBeSplitAndOutlivesItsParents() {
    Members world = Members.join("w", 4, Members.config().build());
    List<@Nullable CollectiveGroup> halves = split(world, r -> r / 2, r -> 0);
    List<@Nullable CollectiveGroup> alone;
    try (Members first = Members.of(List.of(of(halves, 0), of(halves, 1)))) {
      alone = split(first, r -> r, r -> 0);
    }
    world.close();
    assertThat(of(alone, 1).name()).isEqualTo("w/0/1");
    assertThat(sum(of(alone, 0), 3)).isEqualTo(3);
    try (Members second = Members.of(List.of(of(halves, 2), of(halves, 3)))) {
      second.onAll(group -> assertThat(sum(group, 1)).isEqualTo(2));
    }
    close(alone);
  }

  @Test
  void theNewGroupsHaveTheParentsConfigurationAndTheNodesThatTheirMembersForm() {
    GroupConfig config = Members.config().gpusPerNode(2).build();
    try (Members world = Members.join("nodes", 4, config)) {
      List<@Nullable CollectiveGroup> within = split(world, r -> r / 2, r -> 0);
      List<@Nullable CollectiveGroup> across = split(world, r -> r % 2, r -> 0);
      assertThat(of(within, 0).config()).isEqualTo(config.toBuilder().gpusPerNode(0).build());
      assertThat(of(across, 0).config()).isEqualTo(config.toBuilder().gpusPerNode(1).build());
      close(within);
      close(across);
    }
  }

  @Test
  void aMemberThatDoesNotComeIsNamedToAll() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(3)).build();
    try (Members world = Members.join("late", 3, config)) {
      Future<?> zero = world.start(() -> world.rank(0).split(0, 0));
      Future<?> one = world.start(() -> world.rank(1).split(0, 0));
      for (Future<?> waiting : List.of(zero, one)) {
        assertThat(Members.failureOf(waiting))
            .isInstanceOfSatisfying(
                CollectiveTimeoutException.class,
                e -> assertThat(e.missingRanks()).containsExactly(2))
            .hasMessageStartingWith(
                "split #1 of group 'late' timed out after 3 s without rank 2: ranks 0, 1 wait in split #1; ");
      }
      assertThatThrownBy(() -> world.rank(2).split(0, 0))
          .isInstanceOf(CollectiveTimeoutException.class);
    }
  }

  @Test
  void membersThatComeAtDifferentPointsOfTheirCallsAreToldSo() throws Exception {
    try (Members world = Members.join("points", 2, Members.config().build())) {
      Future<?> zero = world.start(() -> world.rank(0).split(0, 0));
      Thread.sleep(200);
      try (DeviceBuffer nothing = world.rank(1).device().allocate(DataType.INT32, 0)) {
        world.rank(1).allReduce(nothing); // waits for nobody, but is a call
      }
      Future<?> one = world.start(() -> world.rank(1).split(0, 0));
      for (Future<?> member : List.of(zero, one)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining(
                "the ranks differ at split #1 of group 'points': rank 0 calls it after its collective #0, rank 1 after #1");
      }
    }
  }

  @Test
  void aMemberThatClosesEndsTheSplitOfTheOthers() throws Exception {
    try (Members world = Members.join("gone", 3, Members.config().build())) {
      Future<?> zero = world.start(() -> world.rank(0).split(0, 0));
      Future<?> one = world.start(() -> world.rank(1).split(0, 0));
      Thread.sleep(200);
      long start = System.nanoTime();
      world.rank(2).close();
      for (Future<?> waiting : List.of(zero, one)) {
        assertThat(Members.failureOf(waiting))
            .isExactlyInstanceOf(CollectiveException.class)
            .hasMessageContaining(
                "rank 2 closed group 'gone', so split #1, which ranks 0, 1 called, cannot complete");
      }
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
    }
  }

  @Test
  void aClosedOrFailedParentRefuses() {
    Members world = Members.join("over", 2, Members.config().build());
    world.rank(0).abort("enough");
    await().until(() -> !world.rank(1).health().healthy());
    assertThatThrownBy(() -> world.rank(1).split(0, 0)).hasMessageContaining("enough");
    world.close();
    assertThatThrownBy(() -> world.rank(0).split(0, 0)).isInstanceOf(CollectiveException.class);

    Members orderly = Members.join("closed", 1, Members.config().build());
    orderly.close();
    assertThatThrownBy(() -> orderly.rank(0).split(0, 0))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("group 'closed' is closed; rank 0 can make no more calls");
  }

  @Test
  void aGroupOfTheLongestNameCanBeSplit() {
    String name = "n".repeat(GroupSpec.MAX_NAME_CHARS);
    try (Members world = Members.join(name, 4, Members.config().build())) {
      // Of names of 130 and 139 characters, all members have to make the same.
      List<@Nullable CollectiveGroup> children =
          split(world, r -> r < 2 ? 7 : Integer.MAX_VALUE, r -> 0);
      for (int r = 0; r < 4; r++) {
        assertThat(of(children, r).name())
            .hasSize(GroupSpec.MAX_NAME_CHARS)
            .matches(r < 2 ? "n+\\.{3}n+/7" : "n+\\.{3}n+/2147483647");
      }
      world.onAll(group -> assertThat(sum(of(children, group.rank()), 1)).isEqualTo(2));
      close(children);
      world.onAll(group -> assertThat(sum(group, 1)).isEqualTo(4));
    }
  }

  @Test
  void aGroupCanBeSplitAtAnyDepth() {
    Members world = Members.join("deep", 2, Members.config().build());
    Members deepest = world;
    for (int depth = 1; depth <= 30; depth++) {
      int color = 1000000 + depth;
      List<@Nullable CollectiveGroup> children = split(deepest, r -> color, r -> 0);
      deepest.close();
      deepest = Members.of(List.of(of(children, 0), of(children, 1)));
    }
    assertThat(deepest.rank(0).name())
        .isEqualTo(deepest.rank(1).name())
        .startsWith("deep/1000001/1000002/")
        .endsWith("/1000029/1000030");
    deepest.onAll(group -> assertThat(sum(group, 1)).isEqualTo(2));
    deepest.close();
  }

  @Test
  void aNameIsShortenedInTheMiddleAndNotWithinACharacter() {
    assertThat(Splitting.childName("tp", "0")).isEqualTo("tp/0");
    String longest = "x".repeat(GroupSpec.MAX_NAME_CHARS - 2);
    assertThat(Splitting.childName(longest, "5")).isEqualTo(longest + "/5");
    for (int shift = 0; shift < 2; shift++) {
      String name = "a".repeat(shift) + "\ud83d\ude00".repeat(GroupSpec.MAX_NAME_CHARS / 2 - shift);
      String child = Splitting.childName(name, "12");
      GroupSpec.checkName(child);
      assertThat(StandardCharsets.UTF_8.newEncoder().canEncode(child)).as(child).isTrue();
    }
  }

  @Test
  void whatFailsInOneGroupLeavesTheOthersWhole() throws Exception {
    try (Members world = Members.join("apart", 4, Members.config().build())) {
      List<@Nullable CollectiveGroup> halves = split(world, r -> r / 2, r -> 0);
      Future<?> blocked = world.start(() -> sum(of(halves, 0), 1));
      Thread.sleep(100);
      of(halves, 1).abort("only this one");
      assertThat(Members.failureOf(blocked))
          .hasMessageContaining("aborted group 'apart/0': only this one");
      world.onAll(group -> assertThat(sum(group, 1)).isEqualTo(4));
      try (Members second = Members.of(List.of(of(halves, 2), of(halves, 3)))) {
        second.onAll(group -> assertThat(sum(group, 1)).isEqualTo(2));
        // Nor does a failure of the parent end its children.
        world.rank(3).abort("all");
        await().until(() -> !world.rank(0).health().healthy());
        second.onAll(group -> assertThat(sum(group, 1)).isEqualTo(2));
      }
      close(halves.subList(0, 2));
    }
  }

  @Test
  void oneSplitOfAMemberRunsAtATime() throws Exception {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(3)).build();
    try (Members world = Members.join("twice", 2, config)) {
      Future<?> first = world.start(() -> world.rank(0).split(0, 0));
      Thread.sleep(200);
      assertThatThrownBy(() -> world.rank(0).split(0, 0))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "split was called on rank 0 of group 'twice' while another split of it runs there");
      assertThat(Members.failureOf(first)).isInstanceOf(CollectiveTimeoutException.class);
    }
  }

  @Test
  void fiftySplitsLeaveNothingBehind() {
    try (Members world = Members.join("many", 2, Members.config().build())) {
      IntStream.range(0, 50).forEach(i -> close(split(world, r -> i % 2, r -> i)));
    }
  }
}
