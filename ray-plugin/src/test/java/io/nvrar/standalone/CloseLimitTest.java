package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** {@link CollectiveGroup#close(Duration)}: how long a member waits for the others. */
@Tag("contract")
class CloseLimitTest {
  private static final Duration LIMIT = Duration.ofMillis(300);

  /** Much longer than a test takes, so that a close that ignores its limit shows. */
  private static GroupConfig config() {
    return Members.config().joinTimeout(Duration.ofSeconds(60)).build();
  }

  private static void closeWithin(Members members, int rank, Duration limit) throws Exception {
    members
        .start(
            () -> {
              members.rank(rank).close(limit);
              return "closed";
            })
        .get(20, TimeUnit.SECONDS);
  }

  @Test
  void aMemberLeavesAfterItsLimitAndThePeersAreTold() throws Exception {
    for (int rank = 0; rank < 2; rank++) {
      try (Members members = Members.join("limit", 2, config())) {
        members.onAll(Members::barrier);
        long start = System.nanoTime();
        closeWithin(members, rank, LIMIT);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThanOrEqualTo(LIMIT);
        assertThat(members.rank(rank).isClosed()).isTrue();
        assertThat(members.rank(rank).failure()).isNull();
        CollectiveGroup peer = members.rank(1 - rank);
        assertThatThrownBy(() -> Members.barrier(peer))
            .hasMessageContaining("rank " + rank + " closed the group");
      }
    }
  }

  @Test
  void membersThatCloseWithinTheLimitEndInOrder() throws Exception {
    try (Members members = Members.join("order", 2, config())) {
      long start = System.nanoTime();
      Future<String> one =
          members.start(
              () -> {
                members.rank(1).close(Duration.ofSeconds(50));
                return "closed";
              });
      members.rank(0).close();
      assertThat(one.get(20, TimeUnit.SECONDS)).isEqualTo("closed");
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(20));
      assertThat(members.rank(0).failure()).isNull();
      assertThat(members.rank(1).failure()).isNull();
    }
  }

  @Test
  void theShortestLimitOfSeveralThreadsCounts() throws Exception {
    try (Members members = Members.join("two", 2, config())) {
      members.onAll(Members::barrier);
      Future<String> patient =
          members.start(
              () -> {
                members.rank(1).close();
                return "closed";
              });
      closeWithin(members, 1, LIMIT);
      assertThat(patient.get(20, TimeUnit.SECONDS)).isEqualTo("closed");
    }
  }

  @Test
  void aLimitOutOfRangeIsRefusedAndClosesNothing() {
    try (Members members = Members.join("range", 1, config())) {
      CollectiveGroup group = members.rank(0);
      for (Duration limit :
          List.of(Duration.ZERO, Duration.ofMillis(-1), Duration.ofDays(1).plusNanos(1))) {
        assertThatThrownBy(() -> group.close(limit))
            .isExactlyInstanceOf(IllegalArgumentException.class)
            .hasMessage("limit is " + limit + ", must be 1 ms to 1 day");
      }
      assertThat(group.isClosed()).isFalse();
      Members.barrier(group);
      group.close(Duration.ofDays(1));
      group.close(LIMIT);
      assertThat(group.isClosed()).isTrue();
    }
  }

  @Test
  void anInterruptDoesNotShortenIt() throws Exception {
    try (Members members = Members.join("interrupt", 2, config())) {
      members.onAll(Members::barrier);
      Future<Duration> closed =
          members.start(
              () -> {
                long start = System.nanoTime();
                Thread.currentThread().interrupt();
                members.rank(1).close(LIMIT);
                assertThat(Thread.interrupted()).as("the interrupt flag is kept").isTrue();
                return Duration.ofNanos(System.nanoTime() - start);
              });
      assertThat(closed.get(20, TimeUnit.SECONDS)).isGreaterThanOrEqualTo(LIMIT);
    }
  }
}
