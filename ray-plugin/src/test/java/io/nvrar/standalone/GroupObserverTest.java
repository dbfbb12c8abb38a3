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
import io.nvrar.OwnThreads;
import io.nvrar.PeerLostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("contract")
class GroupObserverTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final GroupTicket ticket;
  private final GroupObserver observer;
  private final CollectiveGroup zero;
  private final CollectiveGroup one;
  private final AtomicInteger returnedCalls = new AtomicInteger();

  GroupObserverTest() throws Exception {
    ticket = Groups.createTicket("seen", 2, Members.config().build(), Members.HOST);
    observer = Groups.observe(ticket);
    Future<CollectiveGroup> first = threads.submit(() -> Members.join(ticket, 0));
    one = Members.join(ticket, 1);
    zero = first.get();
  }

  @BeforeEach
  void everythingWorks() throws Exception {
    assertThat(observer.name()).isEqualTo("seen");
    assertThat(observer.worldSize()).isEqualTo(2);
    assertThat(observer.failure()).isNull();
    bothBarrier();
  }

  private void bothBarrier() throws Exception {
    Future<?> other = threads.submit(() -> Members.barrier(zero));
    Members.barrier(one);
    other.get();
  }

  @AfterEach
  void closeAgainAndLeaveNothing() throws Exception {
    observer.close();
    Future<?> other = threads.submit(() -> zero.close());
    one.close();
    other.get();
    threads.shutdownNow();
    await().atMost(Duration.ofSeconds(5)).untilAsserted(OwnThreads::assertNone);
  }

  private Future<?> blockRankZero() throws Exception {
    Future<?> blocked =
        threads.submit(
            () -> {
              try (DeviceBuffer buffer = zero.device().allocate(DataType.FLOAT32, 8)) {
                zero.allReduce(buffer);
                Members.complete(zero);
              }
            });
    Thread.sleep(200);
    return blocked;
  }

  @Test
  void destroyClosesAllMembers() {
    long start = System.nanoTime();
    observer.destroy();
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(3));
    assertThat(observer.failure()).isNull();
    assertThat(zero.isClosed()).isTrue();
    assertThat(one.isClosed()).isTrue();
    assertThatThrownBy(() -> one.barrier())
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("group 'seen' was destroyed by the driver; rank 1 can make no more calls");
    observer.destroy();
  }

  @Test
  void destroyEndsACallThatCannotComplete() throws Exception {
    Future<?> blocked = blockRankZero();
    observer.destroy();
    assertThat(Members.failureOf(blocked))
        .isInstanceOf(CollectiveException.class)
        .hasMessageStartingWith(
            "group 'seen' was destroyed by the driver; this member (rank 0) was in allReduce #2 float32[8] SUM (one-shot)")
        .hasMessageNotContaining("flight record"); // it is what the driver wanted
  }

  @Test
  void aCallThatAllHaveEnteredCompletesThoughTheGroupIsDestroyed() throws Exception {
    Future<Float> first = threads.submit(() -> longSum(zero, 1));
    Future<Float> second = threads.submit(() -> longSum(one, 2));
    await().pollInterval(Duration.ofMillis(1)).until(() -> enteredCalls() == 2);
    observer.destroy();
    assertThat(first.get()).isEqualTo(3);
    assertThat(second.get()).isEqualTo(3);
    assertThat(observer.failure()).isNull();
    for (CollectiveGroup member : List.of(zero, one)) {
      assertThatThrownBy(member::barrier)
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("was destroyed by the driver");
    }
  }

  /** Takes long enough for a destruction in its midst. */
  private float longSum(CollectiveGroup group, float value) {
    int count = 64 << 20;
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, count)) {
      float[] last = {value};
      buffer.copyFrom(last, 0, count - 1, 1);
      group.allReduce(buffer);
      returnedCalls.incrementAndGet();
      buffer.copyTo(count - 1, last, 0, 1);
      return last[0];
    }
  }

  /** How many threads are in the native library's all-reduce, or have it enqueued. */
  private long enteredCalls() {
    if (TestBackend.isCuda()) {
      return returnedCalls.get();
    }
    return Thread.getAllStackTraces().values().stream()
        .filter(
            stack ->
                Arrays.stream(stack)
                    .anyMatch(frame -> frame.getMethodName().equals("nvrar_all_reduce")))
        .count();
  }

  @Test
  void destroyAfterAFailureFreesTheMembers() {
    one.abort("enough");
    await().until(() -> observer.failure() != null);
    observer.destroy();
    await().atMost(Duration.ofSeconds(2)).until(() -> zero.isClosed() && one.isClosed());
    assertThatThrownBy(() -> zero.barrier()).hasMessageContaining("enough");
  }

  @Test
  void abortEndsACallAndSaysWhy() throws Exception {
    Future<?> blocked = blockRankZero();
    observer.abort("the user gave up");
    assertThat(Members.failureOf(blocked))
        .isExactlyInstanceOf(CollectiveException.class)
        .hasMessageMatching(
            "the driver \\(pid .*\\) aborted group 'seen': the user gave up; this member \\(rank 0\\) was in allReduce #2 float32\\[8\\] SUM \\(one-shot\\); rank 1 had finished barrier #1; flight record: .*");
    assertThat(observer.failure()).hasMessageContaining("the user gave up");
  }

  @Test
  void closingTheObserverHarmsNobody() throws Exception {
    observer.close();
    observer.close();
    Thread.sleep(100);
    bothBarrier();
  }

  @Test
  void whatFailsInAMemberIsSeen() throws Exception {
    one.abort("no more");
    await()
        .atMost(Duration.ofSeconds(3))
        .untilAsserted(
            () ->
                assertThat(observer.failure())
                    .isExactlyInstanceOf(CollectiveException.class)
                    .hasMessageMatching(
                        "rank 1 \\(pid .*\\) aborted group 'seen': no more; ranks 0, 1 had finished barrier #1; flight record on .+, unless it could not be written: .+\\.jsonl"));
    assertThat(placeOf(observer.failure()))
        .isEqualTo(
            FlightMention.file(
                Members.failureOf(threads.submit(() -> zero.barrier())).getMessage()));
  }

  private static Path placeOf(@Nullable CollectiveException seen) {
    return Path.of(String.valueOf(seen).replaceFirst(".*; flight record on .+?: ", ""));
  }

  @Test
  void anOrderlyCloseIsNoFailure() throws Exception {
    Future<?> other = threads.submit(() -> zero.close());
    one.close();
    other.get();
    observer.destroy();
    assertThat(observer.failure()).isNull();
  }

  @Test
  void anObserverOfAJoinThatFailsLearnsWhy() {
    GroupConfig config = Members.config().joinTimeout(Duration.ofMillis(500)).build();
    GroupTicket lonely = Groups.createTicket("lonely", 2, config, Members.HOST);
    try (GroupObserver watching = Groups.observe(lonely)) {
      assertThatThrownBy(() -> Members.join(lonely, 0))
          .isInstanceOf(CollectiveTimeoutException.class);
      await()
          .atMost(Duration.ofSeconds(3))
          .untilAsserted(
              () ->
                  assertThat(watching.failure())
                      .isInstanceOf(CollectiveTimeoutException.class)
                      .hasMessageContaining("rank 1 of group 'lonely' did not join"));
    }
  }

  @Test
  void anObserverMayComeLateOrTooLate() {
    try (GroupObserver second = Groups.observe(ticket)) {
      assertThat(second.failure()).isNull();
    }
    observer.destroy();
    assertThatThrownBy(() -> Groups.observe(ticket))
        .isInstanceOf(CollectiveException.class)
        .isNotInstanceOf(PeerLostException.class)
        .hasMessageContaining("has no rendezvous");
  }
}
