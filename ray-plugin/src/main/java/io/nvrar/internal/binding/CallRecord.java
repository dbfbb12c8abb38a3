package io.nvrar.internal.binding;

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

  /** Whether the call is a send or a recv. */
  public boolean isTransfer() {
    return isSend() || collective == NativeStructs.RECV;
  }

  /** Whether the call is a send. */
  public boolean isSend() {
    return collective == NativeStructs.SEND;
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
