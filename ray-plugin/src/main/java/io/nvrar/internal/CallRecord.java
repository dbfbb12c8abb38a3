package io.nvrar.internal;

/**
 * What a rank was doing last.
 *
 * @param state what became of that call
 * @param sequence the number of the call in its communicator; the first is 1, 0 if there was none
 * @param description for messages, such as {@code allReduce #41 float32[1024] SUM}
 */
public record CallRecord(State state, long sequence, String description) {

  /** Of a rank that has made no call yet. */
  public static final CallRecord NONE = new CallRecord(State.NONE, 0, "no collective");

  /** What became of a call. */
  public enum State {
    /** No call was made yet. */
    NONE,
    /** The call runs. */
    RUNNING,
    /** The call has ended with a result. */
    DONE,
    /** The call has failed. */
    FAILED
  }
}
