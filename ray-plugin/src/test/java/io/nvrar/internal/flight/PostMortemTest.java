package io.nvrar.internal.flight;

import static io.nvrar.internal.flight.Records.allReduce;
import static io.nvrar.internal.flight.Records.calls;
import static io.nvrar.internal.flight.Records.list;
import static io.nvrar.internal.flight.Records.transfer;
import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.CallRecord.State;
import java.util.List;
import org.junit.jupiter.api.Test;

class PostMortemTest {

  private static PostMortem.Fault faultOf(FlightRecord record) {
    return PostMortem.of(record);
  }

  @Test
  void aTimeoutIsTheFaultOfThoseThatDidNotComeWhateverTheFirstToNoticeThought() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "TIMEOUT",
                -1,
                List.of(1, 2, 3), // rank 1 had left already, because of the time-out
                calls(41, State.FAILED, 1024),
                calls(41, State.FAILED, 1024),
                calls(40, State.DONE, 1024),
                List.of()));
    assertThat(fault.ranks()).containsExactly(2, 3);
    assertThat(fault.sentence())
        .isEqualTo(
            "ranks 2, 3 did not enter allReduce #41 float32[1024] SUM; rank 2 had finished allReduce #40 float32[1024] SUM, rank 3 had made no call yet");
  }

  @Test
  void aTimeoutInACallThatAllHaveEnteredIsTheFaultOfTheMissing() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "TIMEOUT",
                -1,
                List.of(1),
                calls(5, State.FAILED, 8),
                calls(5, State.RUNNING, 8),
                calls(5, State.FAILED, 8)));
    assertThat(fault.ranks()).containsExactly(1);
    assertThat(fault.sentence()).startsWith("rank 1 entered allReduce #5 float32[8] SUM but");
  }

  @Test
  void aTimeoutWithoutEvidenceAccusesNobody() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "TIMEOUT", -1, List.of(), calls(5, State.FAILED, 8), calls(5, State.FAILED, 8)));
    assertThat(fault.ranks()).isEmpty();
    assertThat(fault.sentence()).isEqualTo("the file does not show which rank is at fault");
  }

  @Test
  void aRecvThatWaitsInVainIsTheFaultOfItsSender() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "TIMEOUT",
                -1,
                List.of(1),
                list(transfer(false, 3, 1, State.FAILED, 16)),
                list(transfer(true, 2, 0, State.DONE, 16)),
                list(allReduce(9, State.DONE, 1))));
    assertThat(fault.ranks()).containsExactly(1);
    assertThat(fault.sentence())
        .isEqualTo(
            "rank 1 did not enter recv #3 float32[16] from rank 1 of rank 0; it had finished send #2 float32[16] to rank 0");
  }

  @Test
  void theMinorityDiffers() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "MISMATCH",
                -1,
                List.of(),
                calls(3, State.FAILED, 1024),
                calls(3, State.FAILED, 1024),
                calls(3, State.FAILED, 512)));
    assertThat(fault.ranks()).containsExactly(2);
    assertThat(fault.sentence())
        .isEqualTo(
            "rank 2 differs from the others: rank 2 calls allReduce #3 float32[512] SUM, ranks 0, 1 call allReduce #3 float32[1024] SUM");
  }

  @Test
  void withoutAMajorityAllThatDifferAreNamed() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "MISMATCH", -1, List.of(), calls(3, State.FAILED, 8), calls(3, State.FAILED, 4)));
    assertThat(fault.ranks()).containsExactly(0, 1);
    assertThat(fault.sentence()).contains("none of them is in the majority");
  }

  @Test
  void aSendAndItsRecvOfAnotherCountAreBothNamed() {
    PostMortem.Fault fault =
        faultOf(
            Records.of(
                "MISMATCH",
                -1,
                List.of(),
                list(allReduce(1, State.DONE, 1), transfer(true, 1, 2, State.FAILED, 16)),
                list(allReduce(1, State.DONE, 1)),
                list(allReduce(1, State.DONE, 1), transfer(false, 1, 0, State.FAILED, 8))));
    assertThat(fault.ranks()).containsExactly(0, 2);
    assertThat(fault.sentence())
        .isEqualTo(
            "rank 0 calls send #1 float32[16] to rank 2, rank 2 calls recv #1 float32[8] from rank 0");
  }

  @Test
  void equalCallsShowNobody() {
    assertThat(
            faultOf(
                    Records.of(
                        "MISMATCH",
                        -1,
                        List.of(),
                        calls(3, State.FAILED, 8),
                        calls(3, State.FAILED, 8)))
                .ranks())
        .isEmpty();
  }

  @Test
  void whoWasLostOrEndedTheGroupIsNamedAndTheDriverIsNoRank() {
    List<CallRecord> calls = calls(3, State.DONE, 8);
    assertThat(faultOf(Records.of("PEER_LOST", 1, List.of(), calls, calls)).sentence())
        .isEqualTo("rank 1 was lost; it had finished allReduce #3 float32[8] SUM");
    assertThat(faultOf(Records.of("PEER_LOST", -1, List.of(), calls, calls)).ranks()).isEmpty();
    assertThat(faultOf(Records.of("ABORTED", 0, List.of(), calls, calls)).ranks())
        .containsExactly(0);
    assertThat(faultOf(Records.of("DRIVER", -1, List.of(), calls, calls)).ranks()).isEmpty();
  }
}
