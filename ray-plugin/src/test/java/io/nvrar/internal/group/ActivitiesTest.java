package io.nvrar.internal.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.binding.CallRecord;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ActivitiesTest {

  private static CallRecord done(int sequence) {
    return new CallRecord(
        CallRecord.State.DONE, 0, sequence, "barrier #" + sequence, 0, 0, sequence, -1, 0, 0, 0);
  }

  @Test
  void theOtherRanksAreCountedIfTheyDoTooManyDifferentThings() {
    assertThat(Activities.ofRanks(ActivitiesTest::done, IntStream.range(0, 512).toArray()))
        .startsWith("rank 0 had finished barrier #0, rank 1 had finished barrier #1, ")
        .endsWith(", rank 7 had finished barrier #7, 504 other ranks elsewhere");
  }

  @Test
  void manyRanksThatDoTheSameAreOneRange() {
    assertThat(
            Activities.ofRanks(
                rank -> done(rank == 100 ? 1 : 2), IntStream.range(0, 512).toArray()))
        .isEqualTo(
            "rank 100 had finished barrier #1, ranks 0 to 99, 101 to 511 had finished barrier #2");
  }
}
