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
  void callsWhoseDescriptionsAreEqualDifferInWhatTheUserWasTold() {
    FlightRecord equal =
        Records.of("MISMATCH", -1, List.of(), calls(3, State.FAILED, 8), calls(3, State.FAILED, 8));
    FlightRecord.Header header = equal.header();
    String message = "the calls of the ranks differ: both in allReduce #3, which differ in eps";
    FlightRecord told =
        new FlightRecord(
            new FlightRecord.Header(
                header.group(),
                header.groupId(),
                header.worldSize(),
                header.backend(),
                header.build(),
                header.time(),
                header.nanos(),
                header.host(),
                header.writer(),
                header.kind(),
                message,
                -1,
                List.of()),
            equal.ranks());
    assertThat(faultOf(told)).isEqualTo(new PostMortem.Fault(List.of(), message));
    assertThat(faultOf(equal).sentence())
        .isEqualTo("the file does not show which rank is at fault");
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

  /** Ranks 0 and 1 on host A, rank 2 on host B, as the members of one of them have recorded it. */
  private static FlightRecord ofTwoHosts(
      String writer,
      long nanos,
      List<CallRecord> zero,
      List<CallRecord> one,
      List<CallRecord> two) {
    FlightRecord all = Records.of("TIMEOUT", -1, List.of(), zero, one, two);
    FlightRecord.Header header = all.header();
    return new FlightRecord(
        new FlightRecord.Header(
            header.group(),
            header.groupId(),
            3,
            header.backend(),
            header.build(),
            header.time(),
            nanos,
            writer,
            writer.equals("A") ? 0 : 2,
            header.kind(),
            header.message(),
            -1,
            List.of()),
        List.of(
            new FlightRecord.Rank(0, "A", 100, zero),
            new FlightRecord.Rank(1, "A", 101, one),
            new FlightRecord.Rank(2, "B", 102, two)));
  }

  @Test
  void aRankOnAnotherHostOfWhichNothingIsKnownIsNotBlamed() {
    FlightRecord a =
        ofTwoHosts("A", 1, calls(3, State.FAILED, 8), calls(3, State.FAILED, 8), List.of());
    assertThat(faultOf(a).ranks()).isEmpty();
    FlightRecord recv =
        ofTwoHosts("A", 1, list(transfer(false, 3, 2, State.FAILED, 16)), List.of(), List.of());
    assertThat(faultOf(recv).ranks()).doesNotContain(2);
  }

  @Test
  void theRecordsOfAllHostsTogetherShowTheRankAtFault() {
    FlightRecord a =
        ofTwoHosts("A", 9_000, calls(3, State.FAILED, 8), calls(3, State.FAILED, 8), List.of());
    List<CallRecord> bySlowClock =
        calls(2, State.DONE, 8).stream().map(call -> call.moved(-700)).toList();
    FlightRecord b = ofTwoHosts("B", 1_000, List.of(), List.of(), bySlowClock);
    assertThat(a.isOfSameGroup(b)).isTrue();
    FlightRecord both = a.with(b);
    assertThat(both.ranks().get(0).calls()).isEqualTo(a.ranks().get(0).calls());
    assertThat(both.ranks().get(2).last().beginNanos())
        .isEqualTo(a.ranks().get(0).calls().get(1).beginNanos());
    assertThat(faultOf(both).ranks()).containsExactly(2);
    assertThat(faultOf(both).sentence())
        .isEqualTo(
            "rank 2 did not enter allReduce #3 float32[8] SUM; it had finished allReduce #2 float32[8] SUM");
  }
}
