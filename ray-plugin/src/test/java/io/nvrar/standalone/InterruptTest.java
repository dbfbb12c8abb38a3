package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.OwnThreads;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What the public methods that wait do on a thread whose interrupt flag is set, as by {@code
 * ExecutorService.shutdownNow} or {@code Future.cancel(true)}. All keep the flag.
 */
@Tag("contract")
class InterruptTest {
  private static final int WORLD_SIZE = 2;

  /** The other member does its part this late, so that the interrupted one has to wait. */
  private static final long LATE_MILLIS = 300;

  @TempDir static Path directory;

  @AfterEach
  void nothingStaysBehind() {
    await().atMost(Duration.ofSeconds(15)).untilAsserted(OwnThreads::assertNone);
  }

  private interface Work {
    void run(CollectiveGroup group) throws Exception;
  }

  private interface Action {
    void run() throws Exception;
  }

  /** Each method, what the other member does, and the message of the exception, if there is one. */
  @SuppressWarnings("ImmutableEnumChecker") // the functions capture nothing
  private enum Wait {
    BARRIER(Members::barrier, Members::barrier, null),
    ALL_REDUCE(InterruptTest::allReduce, InterruptTest::allReduce, null),
    SEND(group -> transfer(group, true), group -> transfer(group, false), null),
    RECV(group -> transfer(group, false), group -> transfer(group, true), null),
    HEALTH(CollectiveGroup::health, group -> {}, null),
    STATISTICS(CollectiveGroup::statistics, group -> {}, null),
    FAILURE(CollectiveGroup::failure, group -> {}, null),
    WRITE_FLIGHT_RECORD(
        group -> group.writeFlightRecord(directory.resolve("record.jsonl")), group -> {}, null),
    SPLIT(group -> group.split(0, 0), group -> group.split(0, 0), "was interrupted in split #1"),
    NEW_GROUP(
        group -> group.newGroup(0, 1),
        group -> group.newGroup(0, 1),
        "was interrupted in split #1"),
    CLOSE(CollectiveGroup::close, CollectiveGroup::close, null);

    private final Work work;
    private final Work others;
    private final @Nullable String thrown;

    Wait(Work work, Work others, @Nullable String thrown) {
      this.work = work;
      this.others = others;
      this.thrown = thrown;
    }
  }

  private static GroupConfig config() {
    return Members.config().joinTimeout(Duration.ofSeconds(60)).build();
  }

  private static void allReduce(CollectiveGroup group) {
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 4)) {
      group.allReduce(buffer);
      Members.complete(group);
    }
  }

  private static void transfer(CollectiveGroup group, boolean sends) {
    // More than a ring holds, so that the sender waits for the receiver.
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1 << 22)) {
      if (sends) {
        group.send(buffer, 1 - group.rank());
      } else {
        group.recv(buffer, 1 - group.rank());
      }
      Members.complete(group);
    }
  }

  /** Does it on a thread whose interrupt flag is set; returns what it throws. */
  private static @Nullable Exception interrupted(CollectiveGroup group, Work work) {
    return interrupted(() -> work.run(group));
  }

  private static @Nullable Exception interrupted(Action action) {
    Thread.currentThread().interrupt();
    Exception thrown = null;
    try {
      action.run();
    } catch (Exception e) {
      thrown = e;
    }
    assertThat(Thread.interrupted()).as("the interrupt flag is kept").isTrue();
    return thrown;
  }

  @ParameterizedTest
  @EnumSource(Wait.class)
  void aWaitEndsAsItsDocumentationSays(Wait wait) throws Exception {
    try (Members members = Members.join("interrupt", WORLD_SIZE, config())) {
      Future<@Nullable Exception> hit =
          members.start(() -> interrupted(members.rank(1), wait.work));
      Future<@Nullable Void> other =
          members.start(
              () -> {
                Thread.sleep(LATE_MILLIS);
                wait.others.run(members.rank(0));
                return null;
              });
      Exception thrown = hit.get(20, TimeUnit.SECONDS);
      if (wait.thrown == null) {
        assertThat(thrown).isNull();
        other.get(20, TimeUnit.SECONDS);
        assertThat(members.rank(0).failure()).isNull();
      } else {
        assertThat(thrown)
            .isInstanceOf(CollectiveException.class)
            .hasMessageContaining("rank 1 " + wait.thrown);
        assertThat(Members.failureOf(other)).hasMessageContaining(wait.thrown);
      }
    }
    if (wait == Wait.WRITE_FLIGHT_RECORD) {
      assertThat(Files.size(directory.resolve("record.jsonl"))).isPositive();
    }
  }

  /** The peers learn of the close, and not of a member that is silent. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void anInterruptedCloseIsAnnounced(int rank) throws Exception {
    for (int round = 0; round < 5; round++) {
      try (Members members = Members.join("announced", WORLD_SIZE, config())) {
        members.onAll(Members::barrier);
        Future<@Nullable Exception> closed =
            members.start(() -> interrupted(members.rank(rank), CollectiveGroup::close));
        Future<@Nullable Void> call =
            members.start(
                () -> {
                  allReduce(members.rank(1 - rank));
                  return null;
                });
        assertThat(Members.failureOf(call))
            .hasMessageContaining("rank " + rank + " closed the group");
        members.rank(1 - rank).close();
        assertThat(closed.get(20, TimeUnit.SECONDS)).isNull();
      }
    }
  }

  @Test
  void anInterruptedCloseEndsNoCallThatWouldHaveCompleted() throws Exception {
    try (Members members = Members.join("late", WORLD_SIZE, config())) {
      Future<@Nullable Void> call =
          members.start(
              () -> {
                allReduce(members.rank(0));
                return null;
              });
      Thread.sleep(LATE_MILLIS); // it waits for rank 1 now
      Future<@Nullable Exception> close =
          members.start(() -> interrupted(members.rank(0), CollectiveGroup::close));
      Thread.sleep(LATE_MILLIS);
      allReduce(members.rank(1));
      call.get(20, TimeUnit.SECONDS);
      members.rank(1).close();
      assertThat(close.get(20, TimeUnit.SECONDS)).isNull();
    }
  }

  @Test
  void anInterruptedDestroyAbortsNothing() throws Exception {
    GroupTicket ticket = Groups.createTicket("destroyed", WORLD_SIZE, config(), Members.HOST);
    try (GroupObserver observer = Groups.observe(ticket);
        Members members = Members.joinAll(ticket, WORLD_SIZE)) {
      members.onAll(Members::barrier);
      Future<@Nullable Exception> destroyed =
          members.start(() -> interrupted(members.rank(0), group -> observer.destroy()));
      assertThat(destroyed.get(20, TimeUnit.SECONDS)).isNull();
      assertThat(observer.failure()).isNull();
      await().until(() -> members.rank(0).isClosed() && members.rank(1).isClosed());
      assertThat(members.rank(0).failure()).isNull();
      assertThat(members.rank(1).failure()).isNull();
    }
  }

  @Test
  void whatCreatesAGroupIsEnded() throws Exception {
    GroupTicket ticket = Groups.createTicket("ended", WORLD_SIZE, config(), Members.HOST);
    assertThat(interrupted(() -> Groups.observe(ticket)))
        .hasMessageContaining("an observer was interrupted while it joined group 'ended'");
    assertThat(interrupted(() -> Members.join(ticket, 0)))
        .hasMessageContaining("rank 0 was interrupted while it joined group 'ended'");
    GroupTicket other = Groups.createTicket("ended", WORLD_SIZE, config(), Members.HOST);
    assertThat(interrupted(() -> Groups.discardTicket(other))).isNull();
  }
}
