package io.nvrar.internal.flight;

import io.nvrar.internal.binding.CallRecord;
import io.nvrar.internal.binding.CallRecord.State;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** Flight records made by hand. */
final class Records {
  private static final int ALL_REDUCE = 1;
  private static final int SEND = 8;
  private static final int RECV = 9;

  private Records() {}

  @SafeVarargs
  static FlightRecord of(
      String kind, int failedRank, List<Integer> missing, List<CallRecord>... callsByRank) {
    List<FlightRecord.Rank> ranks = new ArrayList<>();
    for (List<CallRecord> calls : callsByRank) {
      ranks.add(new FlightRecord.Rank(ranks.size(), "node", 100 + ranks.size(), calls));
    }
    return new FlightRecord(
        new FlightRecord.Header(
            "tp/0",
            "0a1b2c3d",
            ranks.size(),
            "CPU",
            "build",
            "2026-01-02T03:04:05.678Z",
            5_000_000,
            "node",
            0,
            kind,
            "what the user \"was\" told",
            failedRank,
            missing),
        ranks);
  }

  /** Collectives 1 to {@code last} of so many elements, all done but perhaps the last. */
  static List<CallRecord> calls(int last, State lastState, int lastCount) {
    List<CallRecord> calls = new ArrayList<>();
    for (int n = 1; n <= last; n++) {
      calls.add(allReduce(n, n == last ? lastState : State.DONE, n == last ? lastCount : 1024));
    }
    return calls;
  }

  static CallRecord allReduce(int number, State state, int count) {
    return new CallRecord(
        state,
        ALL_REDUCE,
        number,
        String.format(Locale.ROOT, "allReduce #%d float32[%d] SUM", number, count),
        1,
        1,
        number,
        -1,
        0,
        number * 1_000_000L,
        state == State.RUNNING ? 0 : number * 1_000_000L + 500);
  }

  static CallRecord transfer(boolean isSend, int number, int peer, State state, int count) {
    return new CallRecord(
        state,
        isSend ? SEND : RECV,
        number,
        String.format(
            Locale.ROOT,
            "%s #%d float32[%d] %s rank %d",
            isSend ? "send" : "recv",
            number,
            count,
            isSend ? "to" : "from",
            peer),
        0,
        1,
        7,
        peer,
        1,
        0,
        0);
  }

  static List<CallRecord> list(CallRecord... calls) {
    return Arrays.asList(calls);
  }
}
