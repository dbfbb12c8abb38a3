package io.nvrar.internal.binding;

import io.nvrar.DataType;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A call in a rank's flight record, as the rank recorded it.
 *
 * @param state the state of the call
 * @param collective {@code NVRAR_ALL_REDUCE} and so on
 * @param sequence the number of a collective in its communicator, or of a send or recv among the
 *     transfers from its sender to its receiver; the first is 1; 0 if there was no call
 * @param description the text used in messages, such as {@code allReduce #41 float32[1024] SUM}
 * @param algorithm the {@link io.nvrar.Algorithm#code} of an all-reduce; 0 if there is no choice
 * @param launches the number of launches of the call
 * @param groupSequence the number of the last collective that the rank has begun, also if this call
 *     is a transfer
 * @param peer the other rank of a send or recv, else -1
 * @param transfers the number of transfers in the batch of this send or recv; 0 for collectives
 * @param beginNanos CLOCK_MONOTONIC of the host; 0 if unknown
 * @param endNanos CLOCK_MONOTONIC of the host; 0 while the call runs
 */
public record CallRecord(
    State state,
    int collective,
    long sequence,
    String description,
    int algorithm,
    long launches,
    long groupSequence,
    int peer,
    int transfers,
    long beginNanos,
    long endNanos) {

  /** The record of a rank that has made no call yet. */
  public static final CallRecord NONE =
      new CallRecord(State.NONE, 0, 0, "no collective", 0, 0, 0, -1, 0, 0, 0);

  /** The record of a rank on another host, whose calls this host does not know. */
  public static final CallRecord UNKNOWN =
      new CallRecord(State.UNKNOWN, 0, 0, "an unknown call", 0, 0, 0, -1, 0, 0, 0);

  /** The type and count in a description, such as "float32[1024]" or "float32[8 x 4096]". */
  private static final Pattern PAYLOAD =
      Pattern.compile("(\\w+)\\[(\\d{1,18})(?: x (\\d{1,9}))?\\]");

  /** The same call by a clock that shows so many nanoseconds more. */
  public CallRecord moved(long nanos) {
    return new CallRecord(
        state,
        collective,
        sequence,
        description,
        algorithm,
        launches,
        groupSequence,
        peer,
        transfers,
        beginNanos == 0 ? 0 : beginNanos + nanos,
        endNanos == 0 ? 0 : endNanos + nanos);
  }

  /**
   * Whether the call runs. On a GPU this includes a call that has not begun: it waits behind
   * others, and an abort would not end it sooner.
   */
  public boolean isUnderWay() {
    return state == State.RUNNING || state == State.QUEUED;
  }

  /** Whether the call is a send or a recv. */
  public boolean isTransfer() {
    return isSend() || collective == NativeStructs.RECV;
  }

  /** Whether the call is a send. */
  public boolean isSend() {
    return collective == NativeStructs.SEND;
  }

  /** The method that was called, such as {@code allReduce}. */
  public String method() {
    int end = description.indexOf(' ');
    return end < 0 ? description : description.substring(0, end);
  }

  /** The type and the count, such as {@code float32[1024]}; "" if there are none. */
  public String payload() {
    Matcher payload = PAYLOAD.matcher(description);
    return payload.find() ? payload.group() : "";
  }

  /** The type of the elements, such as {@code float32}; "" if there are none. */
  public String type() {
    Matcher payload = PAYLOAD.matcher(description);
    return payload.find() ? payload.group(1) : "";
  }

  /** The number of elements as the caller gave it; 0 if there are none. */
  public long elements() {
    Matcher payload = PAYLOAD.matcher(description);
    if (!payload.find()) {
      return 0;
    }
    String row = payload.group(3);
    return Long.parseLong(payload.group(2)) * (row == null ? 1 : Long.parseLong(row));
  }

  /** The bytes of {@link #elements}; 0 if there are none or their type is not known here. */
  public long bytes() {
    String type = type();
    for (DataType known : DataType.values()) {
      if (known.name().toLowerCase(Locale.ROOT).equals(type)) {
        return elements() * known.sizeBytes();
      }
    }
    return 0;
  }

  /** Whether no rank can complete the call before every rank has begun it. */
  public boolean waitsForAll() {
    return switch (collective) {
      case NativeStructs.BARRIER -> true;
      case NativeStructs.BROADCAST, NativeStructs.REDUCE, NativeStructs.SEND, NativeStructs.RECV ->
          false;
      default -> elements() > 0;
    };
  }

  /** The state of a call. */
  public enum State {
    /** No call was made yet. */
    NONE,
    /** The call runs. */
    RUNNING,
    /** The call has ended with a result. */
    DONE,
    /** The call has failed. */
    FAILED,
    /** The call is enqueued on a stream; it may have begun or ended since. */
    QUEUED,
    /** The rank is on another host, and its calls are not known here. */
    UNKNOWN
  }
}
