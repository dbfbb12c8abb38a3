package io.nvrar.internal.binding;

/**
 * What a rank was doing, as it wrote it itself.
 *
 * @param state what became of that call
 * @param collective {@code NVRAR_ALL_REDUCE} and so on
 * @param sequence the number of a collective in its communicator, or of a send or recv among those
 *     from its sender to its receiver; the first is 1, 0 if there was none
 * @param description for messages, such as {@code allReduce #41 float32[1024] SUM}
 * @param algorithm what an all-reduce runs by, {@link io.nvrar.Algorithm#code}; 0 where there is no
 *     choice
 * @param launches in how many launches it runs
 * @param groupSequence the number of the last collective that the rank has begun, whatever this
 *     call is
 * @param peer the other rank of a send or recv, else -1
 * @param transfers of the batch that this send or recv belongs to; 0 for collectives
 * @param beginNanos CLOCK_MONOTONIC of the host; 0 if unknown
 * @param endNanos the same; 0 while it runs
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

  /** Of a rank that has made no call yet. */
  public static final CallRecord NONE =
      new CallRecord(State.NONE, 0, 0, "no collective", 0, 0, 0, -1, 0, 0, 0);

  /** Whether the call is a send or a recv. */
  public boolean isTransfer() {
    return isSend() || collective == NativeStructs.RECV;
  }

  /** Whether the call is a send. */
  public boolean isSend() {
    return collective == NativeStructs.SEND;
  }

  /** What became of a call. */
  public enum State {
    /** No call was made yet. */
    NONE,
    /** The call runs. */
    RUNNING,
    /** The call has ended with a result. */
    DONE,
    /** The call has failed. */
    FAILED,
    /** The call is on a stream: it may have begun or ended since. */
    QUEUED
  }
}
