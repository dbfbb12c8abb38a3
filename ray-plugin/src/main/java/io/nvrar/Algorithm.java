package io.nvrar;

/**
 * How an all-reduce is carried out. Every algorithm gives the same bits, so the choice is one of
 * speed alone.
 */
public enum Algorithm {
  /** The group's tuning table, then the built-in choice by size and topology. */
  AUTO(0),
  /** Every rank sends everything to every other and reduces by itself: fastest when small. */
  ONE_SHOT(1),
  /** Every rank reduces one slice and sends the result to all: less traffic when large. */
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
