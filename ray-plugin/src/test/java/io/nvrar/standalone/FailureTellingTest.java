package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupConfig;
import io.nvrar.OwnThreads;
import io.nvrar.internal.wire.Phrases;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Who is told of a group's failure, and what: peers, whoever asks, and listeners. */
@Tag("contract")
class FailureTellingTest {
  private static final Duration SOON = Duration.ofSeconds(5);

  private final List<CollectiveException> heard = Collections.synchronizedList(new ArrayList<>());
  private final List<String> threads = Collections.synchronizedList(new ArrayList<>());

  @AfterEach
  void nothingStays() {
    await().atMost(Duration.ofSeconds(10)).untilAsserted(OwnThreads::assertNone);
  }

  private void hear(CollectiveException failure) {
    threads.add(Thread.currentThread().getName());
    heard.add(failure);
  }

  private static CollectiveException failureOf(CollectiveGroup group) {
    await().atMost(SOON).until(() -> group.failure() != null);
    return Objects.requireNonNull(group.failure());
  }

  @Test
  void aGroupThatClosesInOrderHasNoFailureAndTellsNobody() {
    Members members = Members.join("whole", 2, Members.config().build());
    members.onAll(group -> group.addFailureListener(this::hear));
    members.onAll(Members::barrier);
    assertThat(members.rank(0).failure()).isNull();
    members.close();
    assertThat(members.rank(0).failure()).isNull();
    members.rank(1).addFailureListener(this::hear);
    assertThat(heard).isEmpty();
  }

  @Test
  void theFailureIsWhatEveryLaterCallThrows() {
    try (Members members = Members.join("same", 2, Members.config().build())) {
      members.rank(1).abort("enough");
      for (CollectiveGroup group : members.groups) {
        CollectiveException failure = failureOf(group);
        assertThat(failure)
            .isExactlyInstanceOf(CollectiveException.class)
            .hasMessageContaining("aborted group 'same': enough");
        Throwable thrown = catchThrowable(group::barrier);
        assertThat(thrown)
            .isExactlyInstanceOf(failure.getClass())
            .hasMessage(failure.getMessage())
            .isNotSameAs(failure);
        assertThat(group.failure()).hasMessage(failure.getMessage());
        group.close();
        assertThat(group.failure()).hasMessage(failure.getMessage());
      }
    }
  }

  @Test
  void anExceptionIsToldToThePeersAndKeptAsTheCauseHere() {
    try (Members members = Members.join("cause", 2, Members.config().build())) {
      Exception reason = new IllegalArgumentException("token 7\n\tis\u001b no token");
      members.rank(1).abort(reason);
      assertThat(failureOf(members.rank(0)))
          .hasMessageMatching(
              "rank 1 \\(pid .*\\) aborted group 'cause': java.lang.IllegalArgumentException: token 7 is\\? no token; .*")
          .hasNoCause();
      assertThat(failureOf(members.rank(1))).cause().isSameAs(reason);
      assertThatThrownBy(() -> members.rank(1).barrier()).cause().isSameAs(reason);
      members.rank(1).abort(new IllegalStateException("too late"));
      assertThat(failureOf(members.rank(1))).cause().isSameAs(reason);
    }
  }

  @Test
  void aReasonIsOneClauseWhateverTheExceptionSays() {
    assertThat(Phrases.clause(new IllegalStateException()))
        .isEqualTo("java.lang.IllegalStateException");
    assertThat(Phrases.clause(new IllegalStateException("x".repeat(100_000))))
        .hasSize(500)
        .endsWith("...");
    assertThat(Phrases.clause(new Talkative())).isEqualTo(Talkative.class.getName());
  }

  @Test
  void anExceptionThatIsNotThereIsRefused() {
    try (Members members = Members.join("null", 1, Members.config().build())) {
      Throwable none = null;
      assertThatThrownBy(() -> abort(members.rank(0), none))
          .isExactlyInstanceOf(IllegalArgumentException.class)
          .hasMessage("reason is null, abort needs an exception or a text");
      assertThat(members.rank(0).failure()).isNull();
    }
  }

  @SuppressWarnings("NullAway") // what a user without that check may do
  private static void abort(CollectiveGroup group, @org.jspecify.annotations.Nullable Throwable e) {
    group.abort(e);
  }

  /** Cannot say what is wrong. */
  private static final class Talkative extends RuntimeException {
    private static final long serialVersionUID = 1;

    @Override
    public String getMessage() {
      throw new UnsupportedOperationException();
    }
  }

  @Test
  void listenersAreToldOnceAndNobodyHasToCall() {
    try (Members members = Members.join("told", 3, Members.config().build())) {
      members.onAll(group -> group.addFailureListener(this::hear));
      members.rank(0).abort("enough");
      await().atMost(SOON).until(() -> heard.size() == 3);
      members.groups.forEach(
          group -> assertThatThrownBy(group::barrier).hasMessageContaining("en"));
      assertThat(heard).hasSize(3).allSatisfy(e -> assertThat(e).hasMessageContaining("enough"));
      assertThat(threads)
          .containsExactlyInAnyOrder(
              "nvrar-told-0-failure", "nvrar-told-1-failure", "nvrar-told-2-failure");
      assertThat(heard)
          .extracting(Throwable::getMessage)
          .contains(failureOf(members.rank(2)).getMessage());
    }
  }

  @Test
  void aCallThatHasFailedIsNoticedAlsoWhereItHasReturned() throws Exception {
    GroupConfig config = Members.config().timeout(Duration.ofMillis(700)).build();
    try (Members members = Members.join("late", 2, config)) {
      members.onAll(group -> group.addFailureListener(this::hear));
      // On a GPU it returns at once and nobody waits for it.
      Future<?> call = members.start(() -> catchThrowable(() -> members.rank(0).barrier()));
      await().atMost(Duration.ofSeconds(10)).until(() -> heard.size() == 2);
      assertThat(heard).hasOnlyElementsOfType(CollectiveTimeoutException.class);
      assertThat(failureOf(members.rank(0))).isInstanceOf(CollectiveTimeoutException.class);
      call.get();
    }
  }

  @Test
  void aListenerThatThrowsHarmsNeitherTheOthersNorTheGroup() {
    AtomicInteger called = new AtomicInteger();
    try (Members members = Members.join("throws", 2, Members.config().build())) {
      Consumer<CollectiveException> broken =
          failure -> {
            called.incrementAndGet();
            throw new IllegalStateException("of the listener");
          };
      members.rank(1).addFailureListener(broken);
      members.rank(1).addFailureListener(this::hear);
      members.rank(0).abort("enough");
      await().atMost(SOON).until(() -> heard.size() == 1);
      assertThat(called).hasValue(1);
      // Now the group has failed: at once, in this thread, and to this caller.
      assertThatThrownBy(() -> members.rank(1).addFailureListener(broken))
          .hasMessage("of the listener");
      members.rank(1).addFailureListener(this::hear);
      assertThat(threads).last().isEqualTo(Thread.currentThread().getName());
    }
  }

  @Test
  void aListenerThatComesLateIsToldOfTheFlightRecordToo() {
    try (Members members = Members.join("record", 2, Members.config().build())) {
      long begin = System.nanoTime();
      members.rank(1).abort("enough");
      members.rank(1).addFailureListener(this::hear);
      assertThat(heard)
          .singleElement()
          .satisfies(e -> FlightMention.assertAwaited(e.getMessage(), begin));
      assertThat(members.rank(1).failure()).hasMessage(heard.get(0).getMessage());
    }
  }

  @Test
  void anInterruptedThreadIsToldOfTheFlightRecordTooAndStaysInterrupted() {
    try (Members members = Members.join("interrupt", 2, Members.config().build())) {
      long begin = System.nanoTime();
      members.rank(1).abort("enough");
      Thread.currentThread().interrupt();
      Throwable thrown;
      boolean interrupted;
      try {
        thrown = catchThrowable(() -> members.rank(1).barrier());
      } finally {
        interrupted = Thread.interrupted();
      }
      FlightMention.assertAwaited(thrown.getMessage(), begin);
      assertThat(interrupted).isTrue();
    }
  }

  @Test
  void aListenerThatBlocksKeepsNoGroupOpen() throws Exception {
    CountDownLatch blocked = new CountDownLatch(1);
    CountDownLatch release = new CountDownLatch(1);
    Members members = Members.join("blocks", 2, Members.config().build());
    members
        .rank(1)
        .addFailureListener(
            failure -> {
              blocked.countDown();
              try {
                release.await();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    members.rank(0).abort("enough");
    assertThat(blocked.await(5, TimeUnit.SECONDS)).isTrue();
    long start = System.nanoTime();
    members.close();
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(SOON);
    release.countDown();
  }

  @Test
  void aListenerThatIsRemovedHearsNothing() {
    try (Members members = Members.join("removed", 2, Members.config().build())) {
      Consumer<CollectiveException> listener = this::hear;
      members.rank(0).addFailureListener(listener);
      members.rank(1).addFailureListener(listener);
      members.rank(0).removeFailureListener(listener);
      members.rank(0).removeFailureListener(listener);
      members.rank(0).abort("enough");
      await().atMost(SOON).until(() -> heard.size() == 1);
      assertThat(threads).containsExactly("nvrar-removed-1-failure");
    }
  }
}
