package io.nvrar.tools.bench.setup;

/** The collectives that can be timed. */
public enum TimedCollective {
  ALL_REDUCE,
  REDUCE,
  BROADCAST,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  /** Every rank sends to the next and receives from the one before. */
  SEND_RECEIVE,
  BARRIER;

  public boolean reduces() {
    return this == ALL_REDUCE || this == REDUCE || this == REDUCE_SCATTER;
  }

  public boolean hasRoot() {
    return this == REDUCE || this == BROADCAST;
  }
}
