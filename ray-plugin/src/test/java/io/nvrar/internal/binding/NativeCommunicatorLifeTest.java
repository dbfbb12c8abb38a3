package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.sun.management.ThreadMXBean;
import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupMismatchException;
import io.nvrar.ReduceOp;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Failure, overlap, abort and close, also where threads meet at the worst time. */
class NativeCommunicatorLifeTest {
  private static final Duration LONG = Duration.ofSeconds(60);

  @Test
  void aSecondCallWhileOneRunsIsRefusedAndTheFirstGoesOn() throws Exception {
    try (Ranks ranks = new Ranks(2, LONG)) {
      DeviceBuffer first = ranks.buffer(DataType.FLOAT32, 1, 2);
      DeviceBuffer second = ranks.buffer(DataType.FLOAT32, 10, 20);
      Future<?> running = ranks.start(0, (member, rank) -> sum(member, first));
      ranks.awaitRunning(0, 1);
      assertThatThrownBy(() -> Ranks.barrier(ranks.member(0)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "barrier was called on rank 0 of a group of 2 while another call of the same group"
                  + " runs there; one collective of a group runs at a time");
      sum(ranks.member(1), second);
      running.get(30, TimeUnit.SECONDS);
      float[] result = new float[2];
      first.copyTo(result);
      assertThat(result).containsExactly(11, 22);
    }
  }

  @Test
  void abortFromAnotherThreadEndsTheBlockedCallAndAllLaterOnesOnAllRanks() throws Exception {
    try (Ranks ranks = new Ranks(3, LONG)) {
      Future<?> running = ranks.start(0, (member, rank) -> Ranks.barrier(member));
      ranks.awaitRunning(0, 1);
      long startNanos = System.nanoTime();
      ranks.member(1).abort();
      assertThatThrownBy(() -> running.get(30, TimeUnit.SECONDS))
          .isInstanceOf(ExecutionException.class)
          .hasCauseExactlyInstanceOf(CollectiveException.class);
      assertThat(Duration.ofNanos(System.nanoTime() - startNanos))
          .isLessThan(Duration.ofSeconds(3));
      for (Throwable failure : ranks.allFail((member, rank) -> Ranks.barrier(member))) {
        assertThat(failure).isExactlyInstanceOf(CollectiveException.class);
      }
      assertThat(ranks.member(2).failure()).isNotNull();
      ranks.member(1).abort();
    }
  }

  @Test
  void aTimeoutNamesTheMissingRanksAndTheCall() throws Exception {
    try (Ranks ranks = new Ranks(4, Duration.ofMillis(300))) {
      DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, 1, 2, 3);
      DeviceBuffer other = ranks.buffer(DataType.FLOAT32, 1, 2, 3);
      Future<?> peer = ranks.start(2, (member, rank) -> sum(member, other));
      Future<?> running = ranks.start(0, (member, rank) -> sum(member, buffer));
      assertThatThrownBy(() -> running.get(30, TimeUnit.SECONDS))
          .cause()
          .isInstanceOf(CollectiveTimeoutException.class)
          .hasMessageContaining("allReduce #1 float32[3] SUM")
          .satisfies(
              e ->
                  assertThat(((CollectiveTimeoutException) e).missingRanks())
                      .containsExactly(1, 3));
      assertThatThrownBy(() -> peer.get(30, TimeUnit.SECONDS))
          .cause()
          .isInstanceOf(CollectiveTimeoutException.class);
      CollectiveException failure = ranks.member(0).failure();
      assertThat(failure).hasMessageContaining("allReduce #1 float32[3] SUM");
      assertThat(ranks.member(0).call(0).state()).isEqualTo(CallRecord.State.FAILED);
      assertThat(ranks.member(0).call(1)).isEqualTo(CallRecord.NONE);
    }
  }

  @Test
  void differingCallsAreAMismatchOnAllRanksThatNamesBothSides() throws Exception {
    try (Ranks ranks = new Ranks(3, LONG)) {
      List<Throwable> failures =
          ranks.allFail(
              (member, rank) ->
                  sum(member, ranks.buffer(DataType.FLOAT32, new float[rank == 1 ? 5 : 4])));
      for (Throwable failure : failures) {
        assertThat(failure)
            .isInstanceOf(GroupMismatchException.class)
            .hasMessageContaining("float32[4]")
            .hasMessageContaining("float32[5]");
      }
    }
  }

  @Test
  void aBadArgumentChangesNothing() throws Exception {
    try (Ranks ranks = new Ranks(2, LONG)) {
      ranks.all(
          (member, rank) -> {
            DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, 1);
            DeviceBuffer integers = ranks.room(DataType.INT32, 1);
            assertThatThrownBy(
                    () -> Ranks.allReduce(member, integers, ReduceOp.AVG, Algorithm.AUTO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("int32");
            assertThatThrownBy(() -> member.run(new Call().broadcast(buffer, buffer, 2), 0))
                .isInstanceOf(IllegalArgumentException.class);
            assertThat(member.failure()).isNull();
            sum(member, buffer);
          });
    }
  }

  @Test
  void closeWhileACallRunsEndsTheCallAndFreesTheMemory() throws Exception {
    long before = sharedMappings();
    try (Ranks ranks = new Ranks(2, LONG)) {
      assertThat(sharedMappings()).isGreaterThan(before);
      NativeCommunicator member = ranks.member(0);
      Future<?> running = ranks.start(0, (m, rank) -> Ranks.barrier(m));
      ranks.awaitRunning(0, 1);
      member.close();
      assertThatThrownBy(() -> running.get(30, TimeUnit.SECONDS))
          .hasCauseExactlyInstanceOf(CollectiveException.class);
      assertThatThrownBy(() -> Ranks.barrier(member))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("barrier was called on rank 0 of a group of 2 after it was closed");
      assertThat(member.call(0))
          .returns(CallRecord.State.FAILED, CallRecord::state)
          .returns(1L, CallRecord::sequence)
          .returns("barrier #1", CallRecord::description);
      assertThat(member.failure()).isExactlyInstanceOf(CollectiveException.class);
      member.abort();
      member.close();
    }
    awaitNoMoreMappingsThan(before);
  }

  @Test
  void closeAbortAndReportsFromManyThreadsInTheMiddleOfCallsNeverTouchFreedMemory()
      throws Exception {
    long before = sharedMappings();
    for (int round = 0; round < 200; round++) {
      try (Ranks ranks = new Ranks(2, LONG)) {
        CountDownLatch go = new CountDownLatch(1);
        List<Future<?>> threads = new ArrayList<>();
        for (int rank = 0; rank < 2; rank++) {
          threads.add(ranks.start(rank, (member, r) -> callUntilItFails(member)));
          threads.add(ranks.start(rank, (member, r) -> reportUntilAborted(member, go)));
          threads.add(ranks.start(rank, (member, r) -> closeAfter(member, go)));
          threads.add(ranks.start(rank, (member, r) -> closeAfter(member, go)));
        }
        Thread.sleep(round % 3);
        go.countDown();
        for (Future<?> thread : threads) {
          thread.get(30, TimeUnit.SECONDS);
        }
      }
    }
    awaitNoMoreMappingsThan(before);
  }

  @Test
  void callsOutOfOrderOfTheLifeCycleAreRefused() {
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    try (NativeCommunicator member =
        NativeCommunicator.prepare(
            "a group of 1", Backend.CPU, 0, 0, 1, id, Links.NONE, GroupConfig.defaults())) {
      assertThatThrownBy(() -> Ranks.barrier(member)).isInstanceOf(IllegalStateException.class);
      assertThatThrownBy(() -> member.connect(new byte[2][]))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("a group of 1 needs as many descriptors, not 2");
      assertThatThrownBy(() -> member.connect(new byte[][] {new byte[3]}))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("a descriptor has 512 bytes, not 3");
      assertThatThrownBy(() -> member.call(1)).isInstanceOf(IllegalArgumentException.class);
      byte[][] descriptors = {member.descriptor()};
      member.connect(descriptors);
      assertThatThrownBy(() -> member.connect(descriptors))
          .isInstanceOf(IllegalStateException.class);
      Ranks.barrier(member);
    }
  }

  @Test
  void badGroupsAreRefusedBeforeAnythingIsReserved() throws IOException {
    long before = sharedMappings();
    GroupConfig config = GroupConfig.defaults();
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    assertThatThrownBy(
            () ->
                NativeCommunicator.prepare(
                    "a group of 2", Backend.CPU, 0, 2, 2, id, Links.NONE, config))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(
            () ->
                NativeCommunicator.prepare(
                    "a group of 9", Backend.CPU, 0, 0, 9, id, Links.NONE, config))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(
            () ->
                NativeCommunicator.prepare(
                    "a group of 1", Backend.CPU, 0, 0, 1, new byte[1], Links.NONE, config))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("a unique id has 256 bytes, not 1");
    assertThatThrownBy(() -> NativeCommunicator.uniqueId(Backend.AUTO))
        .isInstanceOf(IllegalArgumentException.class);
    awaitNoMoreMappingsThan(before);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void aCallAllocatesNothingOnTheJavaHeap(int worldSize) throws Exception {
    int calls = 10_000;
    try (Ranks ranks = new Ranks(worldSize, LONG)) {
      List<Long> allocated =
          ranks.ask(
              (member, rank) -> {
                DeviceBuffer buffer = ranks.buffer(DataType.FLOAT32, new float[64]);
                Call call = new Call().allReduce(buffer, buffer, ReduceOp.MAX, Algorithm.AUTO);
                // A round in which the JIT replaces code may allocate a little, once. What a call
                // allocates shows in every round.
                long least = Long.MAX_VALUE;
                for (int round = 0; round < 5; round++) {
                  least = Math.min(least, allocatedBytes(calls, member, call));
                }
                return least;
              });
      assertThat(allocated).containsOnly(0L);
    }
  }

  private static long allocatedBytes(int calls, NativeCommunicator member, Call call) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadAllocatedBytes();
    for (int i = 0; i < calls; i++) {
      member.run(call, 0);
    }
    return threads.getCurrentThreadAllocatedBytes() - before;
  }

  private static void sum(NativeCommunicator member, DeviceBuffer buffer) {
    Ranks.allReduce(member, buffer, ReduceOp.SUM, Algorithm.AUTO);
  }

  private static void callUntilItFails(NativeCommunicator member) {
    assertThatThrownBy(
            () -> {
              while (true) {
                Ranks.barrier(member);
              }
            })
        .isInstanceOfAny(CollectiveException.class, IllegalStateException.class);
  }

  private static void reportUntilAborted(NativeCommunicator member, CountDownLatch go)
      throws InterruptedException {
    while (go.getCount() > 0) {
      assertThat(member.call(1).description()).isNotEmpty();
      assertThatCode(member::failure).doesNotThrowAnyException();
    }
    member.abort();
    for (int i = 0; i < 100; i++) {
      assertThat(member.call(1).description()).isNotEmpty();
      assertThatCode(member::failure).doesNotThrowAnyException();
    }
  }

  private static void closeAfter(NativeCommunicator member, CountDownLatch go)
      throws InterruptedException {
    go.await();
    member.close();
    assertThatThrownBy(() -> Ranks.barrier(member)).isInstanceOf(IllegalStateException.class);
  }

  /** Groups of earlier tests in this process may end meanwhile. */
  private static void awaitNoMoreMappingsThan(long before) {
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(() -> assertThat(sharedMappings()).isLessThanOrEqualTo(before));
  }

  private static long sharedMappings() throws IOException {
    try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
      return maps.filter(line -> line.contains("memfd:")).count();
    }
  }
}
