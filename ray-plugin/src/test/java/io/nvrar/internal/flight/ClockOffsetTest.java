package io.nvrar.internal.flight;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.CallRecord.State;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Two hosts, whose clocks are brought together by the calls of their ranks. */
class ClockOffsetTest {
  private static final String DATE = "2026-01-02T03:04:05.000Z";
  private static final String SECOND_LATER = "2026-01-02T03:04:06.000Z";

  private static CallRecord call(
      String description, int collective, int number, long from, long to) {
    return new CallRecord(
        State.DONE, collective, number, description, 0, 1, number, -1, 0, from, to);
  }

  private static CallRecord sum(int number, long from, long to) {
    return call(
        String.format(Locale.ROOT, "allReduce #%d float32[8] SUM", number), 1, number, from, to);
  }

  private static FlightRecord on(
      String host, String kind, String time, long nanos, List<CallRecord> calls) {
    boolean first = host.equals("A");
    return new FlightRecord(
        new FlightRecord.Header(
            "tp",
            "0a1b",
            2,
            "CPU",
            "b",
            time,
            nanos,
            host,
            first ? 0 : 1,
            kind,
            "m",
            -1,
            List.of()),
        List.of(
            new FlightRecord.Rank(0, "A", 10, first ? calls : List.of()),
            new FlightRecord.Rank(1, "B", 11, first ? List.of() : calls)));
  }

  @Test
  void itIsTheMiddleOfWhatTheCallsAllow() {
    // B's clock shows 10,000 less. Its rank begins call 1 last, and rank 0 begins call 2 last.
    List<CallRecord> a = List.of(sum(1, 20_000, 20_900), sum(2, 21_500, 22_000));
    List<CallRecord> b = List.of(sum(1, 10_800, 11_000), sum(2, 11_100, 11_700));
    ClockOffset offset =
        ClockOffset.between(on("A", "NONE", DATE, 0, a), on("B", "NONE", SECOND_LATER, 0, b));
    // Call 1 ended at A after it began at B: at most 10,100. Call 2 the other way: at least 9,800.
    assertThat(offset).isEqualTo(new ClockOffset(9_950, 150, 2));
  }

  @Test
  void ranksThatHaveKeptDifferentNumbersOfCallsShareThoseThatBothHave() {
    List<CallRecord> a = new ArrayList<>();
    for (int number = 1; number <= 50; number++) {
      a.add(sum(number, number * 100L, number * 100L + 50));
    }
    List<CallRecord> b = List.of(sum(50, 1_005_000, 1_005_050), sum(51, 1_006_000, 1_006_050));
    assertThat(ClockOffset.between(on("A", "NONE", DATE, 0, a), on("B", "NONE", DATE, 0, b)))
        .isEqualTo(new ClockOffset(-1_000_000, 50, 1));
  }

  @Test
  void callsThatDoNotWaitForAllRanksSayNothing() {
    List<CallRecord> a =
        List.of(
            call("broadcast #1 float32[8] from root 0", 3, 1, 100, 200),
            call("allReduce #2 float32[0] SUM", 1, 2, 300, 300));
    List<CallRecord> b =
        List.of(
            call("broadcast #1 float32[8] from root 0", 3, 1, 1_100, 1_200),
            call("allReduce #2 float32[0] SUM", 1, 2, 1_300, 1_300));
    // So the dates decide: B's record is a second younger, and its clock showed as much.
    assertThat(
            ClockOffset.between(
                on("A", "NONE", DATE, 5_000, a), on("B", "NONE", SECOND_LATER, 7_000, b)))
        .isEqualTo(new ClockOffset(1_000_000_000 - 2_000, 0, 0));
    // A failure is recorded everywhere when it happens, whatever date a host believes in.
    assertThat(
            ClockOffset.between(
                on("A", "TIMEOUT", DATE, 5_000, a), on("B", "TIMEOUT", SECOND_LATER, 7_000, b)))
        .isEqualTo(new ClockOffset(-2_000, 0, 0));
  }

  @Test
  void clocksOfDifferentRatesAreSaidToContradict() {
    List<CallRecord> a = List.of(sum(1, 1_000, 1_100), sum(2, 101_000, 101_100));
    List<CallRecord> b = List.of(sum(1, 1_000, 1_100), sum(2, 102_000, 102_100));
    assertThat(ClockOffset.between(on("A", "NONE", DATE, 0, a), on("B", "NONE", DATE, 0, b)))
        .isEqualTo(new ClockOffset(-500, -400, 2));
  }

  @Test
  void recordsOfOneHostHaveOneClock() {
    FlightRecord a = on("A", "NONE", DATE, 1, List.of());
    assertThat(ClockOffset.between(a, on("A", "NONE", SECOND_LATER, 9, List.of())).nanos())
        .isZero();
  }
}
