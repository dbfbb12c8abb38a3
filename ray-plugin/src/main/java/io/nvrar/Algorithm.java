package io.nvrar;

/**
 * How an all-reduce runs. Every algorithm gives the same bits, so the choice affects speed alone.
 */
public enum Algorithm {
  /**
   * The first rule of the group's {@link TuningTable} that matches, else the built-in choice by
   * size and topology.
   */
  AUTO(0),
  /**
   * Every rank sends all its data to every other rank and reduces by itself: fastest for small
   * messages.
   */
  ONE_SHOT(1),
  /**
   * Every rank reduces one slice and sends the result to all: less traffic for large messages.
   * Refused in groups on GPUs over hosts.
   */
  TWO_SHOT(2),
  /** Two-shot within each node, with an exchange of the slices between nodes. */
  HIERARCHICAL(3);

  private final int code;

  Algorithm(int code) {
    this.code = code;
  }

  /** The code of this algorithm in the native library. */
  public int code() {
    return code;
  }
}
