package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.OwnThreads;
import io.nvrar.ReduceOp;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("contract")
class GroupLifeTest {

  private static float sumOf(CollectiveGroup group, float value) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      float[] values = new float[1024];
      Arrays.fill(values, value);
      buffer.copyFrom(values);
      group.allReduce(buffer);
      buffer.copyTo(values);
      assertThat(values).containsOnly(values[0]);
      return values[0];
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void membersOfEveryWorldSizeReduceAndClose(int worldSize) {
    try (Members members = Members.join("life", worldSize, Members.config().build())) {
      members.onAll(
          group ->
              assertThat(sumOf(group, group.rank() + 1))
                  .isEqualTo(worldSize * (worldSize + 1) / 2f));
    }
  }

  @Test
  void theOtherCollectivesReachEveryRank() {
    try (Members members = Members.join("all", 3, Members.config().build())) {
      members.onAll(
          group -> {
            try (DeviceBuffer send = group.device().allocate(DataType.INT32, 2);
                DeviceBuffer recv = group.device().allocate(DataType.INT32, 6)) {
              send.copyFrom(new int[] {group.rank(), 10 * group.rank()});
              group.allGather(send, recv);
              int[] all = new int[6];
              recv.copyTo(all);
              assertThat(all).containsExactly(0, 0, 1, 10, 2, 20);
              group.broadcast(send, 2);
              int[] two = new int[2];
              send.copyTo(two);
              assertThat(two).containsExactly(2, 20);
              group.allReduce(send, ReduceOp.MAX);
              Members.barrier(group);
            }
          });
    }
  }

  @Test
  void groupsOfOneProcessWithPermutedRanksDoNotMix() {
    try (Members first = Members.join("one", 4, Members.config().build());
        Members second = Members.join("two", 4, Members.config().build())) {
      // "Process" p is rank p of the first group and rank 3 - p of the second.
      first.onAll(
          one -> {
            CollectiveGroup two = second.rank(3 - one.rank());
            for (int i = 0; i < 20; i++) {
              assertThat(sumOf(one, one.rank())).isEqualTo(6);
              assertThat(sumOf(two, 10 * two.rank())).isEqualTo(60);
            }
          });
    }
  }

  @Test
  void whatACaptureRecordsRunsAtTheLaunch() {
    try (Members members = Members.join("graph", 2, Members.config().build())) {
      members.onAll(
          group -> {
            try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1)) {
              buffer.copyFrom(new float[] {1});
              float[] value = new float[1];
              try (DeviceGraph graph =
                  group.device().capture(group.stream(), () -> group.allReduce(buffer))) {
                buffer.copyTo(value);
                assertThat(value[0]).isEqualTo(1);
                graph.launch(group.stream());
                graph.launch(group.stream());
              }
              buffer.copyTo(value);
              assertThat(value[0]).isEqualTo(4);
            }
          });
    }
  }

  @Test
  void closeWaitsForCallsThatAllHaveEntered() throws Exception {
    Members members = Members.join("close", 3, Members.config().build());
    // Rank 2 is late for the call after which 0 and 1 close at once.
    Future<Float> zero = members.start(() -> sumAndClose(members.rank(0), 1));
    Future<Float> one = members.start(() -> sumAndClose(members.rank(1), 2));
    Thread.sleep(300);
    Future<Float> two = members.start(() -> sumAndClose(members.rank(2), 3));
    assertThat(List.of(zero.get(), one.get(), two.get())).containsOnly(6f);
    members.close();
  }

  private static float sumAndClose(CollectiveGroup group, float value) {
    float sum = sumOf(group, value);
    group.close();
    return sum;
  }

  @Test
  void aCallBeyondAClosedMembersLastFailsAtOnce() throws Exception {
    try (Members members = Members.join("early", 3, Members.config().build())) {
      members.onAll(group -> sumOf(group, 1));
      members.onAll(group -> sumOf(group, 1));
      // Rank 0 is inside call 3 when rank 2 closes; rank 1 comes later.
      Future<Float> inside = members.start(() -> sumOf(members.rank(0), 1));
      Thread.sleep(200);
      long start = System.nanoTime();
      Future<?> closing =
          members.start(
              () -> {
                members.rank(2).close();
                return null;
              });
      assertThat(Members.failureOf(inside))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageStartingWith(
              "rank 2 closed the group after its call #2; this member (rank 0) was in allReduce #3 float32[1024] SUM (one-shot)")
          .hasMessageContaining(
              "ranks 1, 2 had finished allReduce #2 float32[1024] SUM (one-shot)");
      assertThatThrownBy(() -> sumOf(members.rank(1), 1))
          .isInstanceOf(CollectiveException.class)
          .hasMessageStartingWith("rank 2 closed the group after its call #2");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
      members.rank(0).close();
      members.rank(1).close();
      closing.get();
    }
  }

  @Test
  void membersThatFailBehindAClosedOneDoNotKeepItWaiting() throws Exception {
    Members members = Members.join("behind", 3, Members.config().build());
    members.onAll(group -> sumOf(group, 1));
    Future<Long> closing =
        members.start(
            () -> {
              members.rank(0).close();
              return System.nanoTime();
            });
    for (int rank = 1; rank < 3; rank++) {
      CollectiveGroup late = members.rank(rank);
      assertThatThrownBy(() -> sumOf(late, 1))
          .isInstanceOf(CollectiveException.class)
          .hasMessageStartingWith("rank 0 closed the group after its call #1");
    }
    long start = System.nanoTime();
    members.rank(1).close();
    members.rank(2).close();
    // Both wait for their flight record, one after the other; the join's limit is 10 s.
    assertThat(Duration.ofNanos(closing.get() - start)).isLessThan(Duration.ofSeconds(6));
    members.close();
  }

  @Test
  void closeDoesNotWaitForeverForTheOthers() {
    GroupConfig config = Members.config().joinTimeout(Duration.ofSeconds(3)).build();
    Members members = Members.join("alone", 2, config);
    long start = System.nanoTime();
    members.rank(1).close();
    assertThat(Duration.ofNanos(System.nanoTime() - start))
        .isBetween(Duration.ofMillis(2900), Duration.ofSeconds(5));
    members.rank(1).close();
    assertThat(members.rank(1).isClosed()).isTrue();
    assertThatThrownBy(() -> members.rank(1).barrier())
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("group 'alone' is closed; rank 1 can make no more calls");
    assertThat(members.rank(0).isClosed()).isFalse();
    members.close();
  }

  @Test
  @Tag("host") // where a call returns when it is done
  void aCallThatIsRefusedNamesItsGroupAndRank() throws Exception {
    try (Members members = Members.join("busy", 2, Members.config().build())) {
      Future<Boolean> call =
          members.start(
              () -> {
                members.rank(1).barrier();
                return true;
              });
      Thread.sleep(200);
      assertThatThrownBy(() -> members.rank(1).barrier())
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith(
              "barrier was called on rank 1 of group 'busy' while another call of the same group");
      members.rank(0).barrier();
      assertThat(call.get()).isTrue();
    }
  }

  @Test
  @Tag("host") // a GPU works on it after the call has returned
  void aBufferClosedDuringACallStaysUntilItsEnd() throws Exception {
    int count = 16 << 20; // what the C library gives back to the system at once
    try (Members members = Members.join("closed buffer", 2, Members.config().build());
        DeviceBuffer theirs = members.rank(1).device().allocate(DataType.FLOAT32, count)) {
      DeviceBuffer ours = members.rank(0).device().allocate(DataType.FLOAT32, count);
      ours.copyFrom(filled(count, 1));
      theirs.copyFrom(filled(count, 2));
      Future<Boolean> call =
          members.start(
              () -> {
                members.rank(0).allReduce(ours);
                return true;
              });
      Thread.sleep(200);
      ours.close();
      members.rank(1).allReduce(theirs);
      assertThat(call.get()).isTrue();
      float[] last = new float[1];
      theirs.copyTo(count - 1, last, 0, 1);
      assertThat(last[0]).isEqualTo(3);
      assertThatThrownBy(() -> members.rank(0).allReduce(ours))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("is closed");
    }
  }

  private static float[] filled(int count, float value) {
    float[] values = new float[count];
    Arrays.fill(values, value);
    return values;
  }

  @Test
  void aMemberThatClosesInsideACallWithoutEndIsNamedToTheOthers() throws Exception {
    GroupConfig config =
        Members.config()
            .joinTimeout(Duration.ofSeconds(3))
            .heartbeatLimit(Duration.ofSeconds(10))
            .build();
    Members members = Members.join("inside", 3, config);
    Future<Float> leaving = members.start(() -> sumOf(members.rank(1), 1));
    Future<Float> waiting = members.start(() -> sumOf(members.rank(0), 1));
    Thread.sleep(200);
    long start = System.nanoTime();
    members.rank(1).close();
    assertThat(Members.failureOf(leaving)).isInstanceOf(IllegalStateException.class);
    assertThat(Members.failureOf(waiting))
        .isInstanceOf(CollectiveException.class)
        .hasMessageMatching(
            "rank 1 \\(pid .*\\) closed group 'inside' while its last call ran; this member \\(rank 0\\) was in allReduce #1 .*");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(6));
    members.close();
  }

  @Test
  void anAbortReachesEveryMemberWhereverItIs() throws Exception {
    try (Members members = Members.join("abort", 3, Members.config().build())) {
      Future<Float> blocked = members.start(() -> sumOf(members.rank(0), 1));
      Thread.sleep(200);
      members.rank(1).abort("the model is gone");
      assertThat(Members.failureOf(blocked))
          .isExactlyInstanceOf(CollectiveException.class)
          .hasMessageMatching(
              "rank 1 \\(pid .*\\) aborted group 'abort': the model is gone; this member \\(rank 0\\) was in allReduce #1 float32\\[1024\\] SUM \\(one-shot\\); ranks 1, 2 had made no call yet; flight record: .*");
      await()
          .atMost(Duration.ofSeconds(3))
          .untilAsserted(
              () ->
                  assertThatThrownBy(() -> members.rank(2).throwIfFailed())
                      .hasMessageContaining("this member (rank 2) had made no call yet; "));
      // Every call throws anew, with the stack of its caller.
      Throwable first = catchThrowable(() -> members.rank(2).barrier());
      Throwable second = catchThrowable(() -> members.rank(2).barrier());
      assertThat(first).hasMessage(second.getMessage()).isNotSameAs(second);
    }
  }

  @Test
  void aTimeoutNamesWhoIsMissingOnEveryMember() throws Exception {
    GroupConfig config = Members.config().timeout(Duration.ofMillis(700)).build();
    try (Members members = Members.join("slow", 3, config)) {
      Future<Float> zero = members.start(() -> sumOf(members.rank(0), 1));
      Future<Float> one = members.start(() -> sumOf(members.rank(1), 1));
      for (Future<Float> waiting : List.of(zero, one)) {
        assertThat(Members.failureOf(waiting))
            .isInstanceOfSatisfying(
                CollectiveTimeoutException.class, e -> assertThat(e.missingRanks()).contains(2))
            .hasMessageContaining("rank 2 has entered no call")
            .hasMessageContaining("allReduce #1 float32[1024] SUM");
      }
      assertThatThrownBy(() -> sumOf(members.rank(2), 1))
          .isInstanceOf(CollectiveTimeoutException.class)
          .hasMessageContainingAll("timed out", "rank 2 has entered no call");
    }
  }

  @Test
  void differingCallsFailOnAllWithBothNamed() throws Exception {
    try (Members members = Members.join("differ", 2, Members.config().build())) {
      Future<Float> zero = members.start(() -> sumOf(members.rank(0), 1));
      Future<?> one =
          members.start(
              () -> {
                Members.barrier(members.rank(1));
                return null;
              });
      for (Future<?> member : List.of(zero, one)) {
        assertThat(Members.failureOf(member))
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContainingAll("allReduce #1 float32[1024] SUM", "barrier #1");
      }
    }
  }

  @Test
  void fiftyGroupsLeaveNoThreadSocketOrFileBehind() throws Exception {
    round(); // whatever the first group loads stays open
    Thread.sleep(200);
    long files = openFiles();
    for (int i = 0; i < 50; i++) {
      round();
    }
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(
            () -> {
              assertThat(openFiles()).isLessThanOrEqualTo(files);
              OwnThreads.assertNone();
            });
  }

  private static void round() {
    try (Members members = Members.join("round", 2, Members.config().build())) {
      members.onAll(group -> sumOf(group, 1));
    }
  }

  private static long openFiles() throws Exception {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.count();
    }
  }
}
