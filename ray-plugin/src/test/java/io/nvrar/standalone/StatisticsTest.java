package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.Collective;
import io.nvrar.CollectiveGroup;
import io.nvrar.CollectiveStatistics;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.GroupStatistics;
import io.nvrar.LastCall;
import io.nvrar.ReduceOp;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** Operators alarm on these numbers: a call that is not counted, or a wait on the wrong peer. */
class StatisticsTest {
  private static final GroupConfig CONFIG = Members.config().build();

  private static CollectiveStatistics of(GroupStatistics statistics, Collective collective) {
    return statistics.collectives().stream()
        .filter(one -> one.collective() == collective)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void eachCallIsCountedByCollectiveAndType() {
    try (Members members = Members.join("counted", 2, CONFIG)) {
      assertThat(members.rank(0).statistics().collectives()).isEmpty();
      members.onAll(
          group -> {
            try (DeviceBuffer floats = group.device().allocate(DataType.FLOAT32, 100);
                DeviceBuffer others = group.device().allocate(DataType.FLOAT32, 100);
                DeviceBuffer halves = group.device().allocate(DataType.BFLOAT16, 6)) {
              for (int i = 0; i < 5; i++) {
                group.allReduce(floats);
              }
              group.allReduce(halves);
              group.barrier();
              group.sendReceive(floats, 1 - group.rank(), others, 1 - group.rank());
            }
          });
      GroupStatistics statistics = members.rank(0).statistics();
      assertThat(statistics.collectives())
          .extracting(CollectiveStatistics::collective)
          .containsExactly(
              Collective.ALL_REDUCE, Collective.BARRIER, Collective.SEND, Collective.RECV);
      CollectiveStatistics reduced = of(statistics, Collective.ALL_REDUCE);
      assertThat(reduced.calls()).isEqualTo(6);
      assertThat(reduced.calls(DataType.FLOAT32)).isEqualTo(5);
      assertThat(reduced.bytes(DataType.FLOAT32)).isEqualTo(5 * 400);
      assertThat(reduced.calls(DataType.BFLOAT16)).isEqualTo(1);
      assertThat(reduced.bytes(DataType.BFLOAT16)).isEqualTo(12);
      assertThat(reduced.calls(null)).isZero();
      assertThat(reduced.failed()).isZero();
      assertThat(of(statistics, Collective.BARRIER).calls(null)).isEqualTo(1);
      assertThat(statistics.age()).isBetween(Duration.ofNanos(1), Duration.ofMinutes(1));
    }
  }

  @Test
  void durationsAreInTheBucketThatHoldsThem() {
    try (Members members = Members.join("buckets", 2, CONFIG)) {
      long began = System.nanoTime();
      members.onAll(
          group -> {
            for (int i = 0; i < 20; i++) {
              if (group.rank() == 1) {
                sleep(30);
              }
              group.barrier();
            }
          });
      long whole = System.nanoTime() - began;
      CollectiveStatistics waiting = of(members.rank(0).statistics(), Collective.BARRIER);
      assertThat(waiting.timed()).isEqualTo(20);
      assertThat(waiting.timedNanos()).isBetween(TimeUnit.MILLISECONDS.toNanos(200), whole);
      long[] durations = waiting.durations();
      long shortOnes = 0;
      long least = 0;
      long most = 0;
      for (int i = 0; i < durations.length; i++) {
        long limit = CollectiveStatistics.bucketNanos(i);
        shortOnes += limit < TimeUnit.MILLISECONDS.toNanos(1) ? durations[i] : 0;
        least += durations[i] * (i == 0 ? 0 : CollectiveStatistics.bucketNanos(i - 1));
        most += durations[i] * limit;
      }
      assertThat(shortOnes).as("barriers that did not wait for the late rank").isLessThan(5);
      assertThat(waiting.timedNanos()).as("the sum, by its buckets").isBetween(least, most);
      assertThat(LongStream.of(durations).sum()).isEqualTo(waiting.timed());
    }
  }

  @Test
  void aRankKnowsForWhomItHasWaited() {
    try (Members members = Members.join("late", 3, CONFIG)) {
      members.onAll(
          group -> {
            for (int i = 0; i < 10; i++) {
              if (group.rank() == 2) {
                sleep(50);
              }
              group.barrier();
            }
          });
      GroupStatistics early = members.rank(0).statistics();
      assertThat(early.waits(2)).isPositive();
      assertThat(early.waitNanos(2))
          .isGreaterThan(TimeUnit.MILLISECONDS.toNanos(200))
          .isGreaterThan(2 * early.waitNanos(1));
      assertThat(early.waits(0)).isZero();
    }
  }

  @Test
  void aCallThatFailedIsCountedAndTheNumbersOutliveTheClose() {
    try (Members members =
        Members.join("failed", 2, Members.config().timeout(Duration.ofMillis(200)).build())) {
      CollectiveGroup group = members.rank(0);
      assertThatThrownBy(group::barrier).isInstanceOf(CollectiveTimeoutException.class);
      CollectiveStatistics failed = of(group.statistics(), Collective.BARRIER);
      assertThat(failed.failed()).isEqualTo(1);
      assertThat(failed.timedNanos())
          .isBetween(TimeUnit.MILLISECONDS.toNanos(190), TimeUnit.SECONDS.toNanos(30));
      group.close();
      assertThat(of(group.statistics(), Collective.BARRIER).failed()).isEqualTo(1);
    }
  }

  @Test
  void healthHasTheLastCallInFields() {
    try (Members members = Members.join("fields", 2, CONFIG)) {
      assertThat(members.rank(0).health().ranks().get(1).lastCall())
          .hasToString("no call yet")
          .satisfies(none -> assertThat(none.collective()).isNull())
          .satisfies(none -> assertThat(none.nanos()).isEqualTo(-1));
      members.onAll(
          group -> {
            try (DeviceBuffer buffer = group.device().allocate(DataType.INT64, 3)) {
              group.allReduce(buffer, buffer, ReduceOp.MAX, Algorithm.TWO_SHOT, group.stream());
            }
          });
      LastCall call = members.rank(0).health().ranks().get(1).lastCall();
      assertThat(call).hasToString("allReduce #1 int64[3] MAX (two-shot), done");
      assertThat(call.state()).isEqualTo(LastCall.State.DONE);
      assertThat(call.collective()).isEqualTo(Collective.ALL_REDUCE);
      assertThat(call.sequence()).isEqualTo(1);
      assertThat(call.dataType()).isEqualTo(DataType.INT64);
      assertThat(call.count()).isEqualTo(3);
      assertThat(call.bytes()).isEqualTo(24);
      assertThat(call.algorithm()).isEqualTo(Algorithm.TWO_SHOT);
      assertThat(call.peer()).isEqualTo(-1);
      assertThat(call.nanos()).isBetween(1L, TimeUnit.SECONDS.toNanos(30));
    }
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
