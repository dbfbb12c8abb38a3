package io.nvrar.it.soak.worker;

import io.nvrar.CollectiveTimeoutException;
import io.nvrar.PeerLostException;
import io.nvrar.it.soak.call.WrongResultException;
import io.nvrar.it.soak.plan.Phase;
import java.util.Arrays;
import java.util.List;

/**
 * How a member's run ended.
 *
 * @param end the kind of end
 * @param phase the phase at the end
 * @param step the call before or in which it ended
 * @param exception the simple name of the exception, "" if there was none
 * @param message its message
 * @param lostRank the lost rank of a {@link PeerLostException}, else -1
 * @param lostPid the process of a {@link PeerLostException}, else 0
 * @param missingRanks the missing ranks of a {@link CollectiveTimeoutException}
 * @param atNanos when the calls ended, on the machine's monotonic clock
 * @param closedNanos when the member was closed
 */
public record Outcome(
    End end,
    Phase phase,
    int step,
    String exception,
    String message,
    int lostRank,
    long lostPid,
    List<Integer> missingRanks,
    long atNanos,
    long closedNanos) {

  private static final int WORDS = 10;

  /** The kinds of end. */
  public enum End {
    /** Every call gave the right result, and the member closed. */
    COMPLETE,
    /** A call or the creation threw. */
    FAILED,
    /** A call succeeded with a wrong result. */
    WRONG_RESULT,
    /** The process died. */
    DIED,
    /** It did not end. */
    HANGS
  }

  public static Outcome complete(int step, long atNanos) {
    return new Outcome(End.COMPLETE, Phase.CLOSE, step, "", "", -1, 0, List.of(), atNanos, atNanos);
  }

  public static Outcome of(End end) {
    return new Outcome(end, Phase.CREATE, 0, "", "", -1, 0, List.of(), 0, 0);
  }

  public static Outcome thrown(Throwable cause, Phase phase, int step, long atNanos) {
    PeerLostException lost = cause instanceof PeerLostException peer ? peer : null;
    int[] missing =
        cause instanceof CollectiveTimeoutException timeout ? timeout.missingRanks() : new int[0];
    return new Outcome(
        cause instanceof WrongResultException ? End.WRONG_RESULT : End.FAILED,
        phase,
        step,
        cause.getClass().getSimpleName(),
        String.valueOf(cause.getMessage()),
        lost == null ? -1 : lost.lostRank(),
        lost == null ? 0 : lost.pid(),
        Arrays.stream(missing).boxed().toList(),
        atNanos,
        atNanos);
  }

  /** This outcome, with the time of the close. */
  Outcome closed(long nanos) {
    return new Outcome(
        end, phase, step, exception, message, lostRank, lostPid, missingRanks, atNanos, nanos);
  }

  public boolean is(Class<? extends Throwable> type) {
    return end == End.FAILED && exception.equals(type.getSimpleName());
  }

  List<Object> words() {
    StringBuilder missing = new StringBuilder();
    missingRanks.forEach(rank -> missing.append(rank).append(','));
    return List.of(
        end, phase, step, exception, message, lostRank, lostPid, missing, atNanos, closedNanos);
  }

  public static Outcome parse(List<String> words) {
    if (words.size() != WORDS) {
      throw new IllegalArgumentException("an outcome has " + WORDS + " words, not " + words.size());
    }
    return new Outcome(
        End.valueOf(words.get(0)),
        Phase.valueOf(words.get(1)),
        Integer.parseInt(words.get(2)),
        words.get(3),
        words.get(4),
        Integer.parseInt(words.get(5)),
        Long.parseLong(words.get(6)),
        Arrays.stream(words.get(7).split(",", -1))
            .filter(rank -> !rank.isEmpty())
            .map(Integer::valueOf)
            .toList(),
        Long.parseLong(words.get(8)),
        Long.parseLong(words.get(9)));
  }

  @Override
  public String toString() {
    return end == End.COMPLETE
        ? "complete"
        : end
            + (exception.isEmpty()
                ? ""
                : " in " + phase + " " + step + ": " + exception + ": " + message);
  }
}
