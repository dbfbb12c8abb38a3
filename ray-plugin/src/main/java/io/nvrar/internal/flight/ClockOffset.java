package io.nvrar.internal.flight;

import io.nvrar.internal.binding.CallRecord;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;

/**
 * What has to be added to the times of one record to have them by the clock of another. Records of
 * two hosts are brought together by the calls that both have: no rank can complete a call that
 * waits for all ranks before the last rank has begun it, which bounds the offset from both sides.
 * The offset is the middle of what the calls allow.
 *
 * @param nanos the offset
 * @param errorNanos the offset is at most this wrong, if {@code calls} is not 0. Negative if the
 *     calls contradict each other, because the clocks run at different rates: then no offset is
 *     right for all of them, and this one is wrong by so much for some
 * @param calls how many calls bound it; if 0, the records' dates have given it, or, if both tell of
 *     a failure, that they were written when it happened
 */
public record ClockOffset(long nanos, long errorNanos, int calls) {

  /** By how much {@code there} has to be moved to be on the clock of {@code here}. */
  public static ClockOffset between(FlightRecord here, FlightRecord there) {
    if (here.header().host().equals(there.header().host())) {
      return new ClockOffset(0, 0, 0);
    }
    Map<Long, Span> ours = spans(here);
    long least = Long.MIN_VALUE;
    long most = Long.MAX_VALUE;
    int shared = 0;
    for (Map.Entry<Long, Span> theirs : spans(there).entrySet()) {
      Span our = ours.get(theirs.getKey());
      Span their = theirs.getValue();
      if (our != null && our.call.equals(their.call)) {
        shared++;
        least = Math.max(least, our.lastBegin - their.firstEnd);
        most = Math.min(most, our.firstEnd - their.lastBegin);
      }
    }
    return shared == 0
        ? new ClockOffset(unbounded(here.header(), there.header()), 0, 0)
        : new ClockOffset(least + (most - least) / 2, (most - least) / 2, shared);
  }

  /** When the last rank of a record began a call, and the first one had completed it. */
  private static final class Span {
    final String call;
    long lastBegin = Long.MIN_VALUE;
    long firstEnd = Long.MAX_VALUE;

    Span(String call) {
      this.call = call;
    }
  }

  private static Map<Long, Span> spans(FlightRecord record) {
    Map<Long, Span> spans = new HashMap<>();
    for (FlightRecord.Rank rank : record.ranks()) {
      if (!record.isComplete(rank.rank())) {
        continue;
      }
      for (CallRecord call : rank.calls()) {
        if (call.state() == CallRecord.State.DONE && call.waitsForAll() && call.beginNanos() != 0) {
          Span span = spans.computeIfAbsent(call.sequence(), n -> new Span(call.description()));
          span.lastBegin = Math.max(span.lastBegin, call.beginNanos());
          span.firstEnd = Math.min(span.firstEnd, call.endNanos());
        }
      }
    }
    return spans;
  }

  private static long unbounded(FlightRecord.Header here, FlightRecord.Header there) {
    long asOne = here.nanos() - there.nanos();
    boolean ofFailure =
        !here.kind().equals(FlightRecord.NO_FAILURE)
            && !there.kind().equals(FlightRecord.NO_FAILURE);
    try {
      return ofFailure
          ? asOne
          : Math.addExact(
              asOne,
              Duration.between(Instant.parse(here.time()), Instant.parse(there.time())).toNanos());
    } catch (DateTimeException | ArithmeticException e) { // a date that this library never writes
      return asOne;
    }
  }
}
