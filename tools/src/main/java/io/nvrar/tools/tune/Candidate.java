package io.nvrar.tools.tune;

import io.nvrar.Algorithm;
import io.nvrar.tools.bench.setup.OptionNames;

/**
 * A way in which calls may run.
 *
 * @param algorithm of an all-reduce; AUTO of other collectives
 * @param blocks the rule's blocks; 0: the library's choice
 * @param tiles the rule's tiles; 0: the library's choice
 */
record Candidate(Algorithm algorithm, int blocks, int tiles) {

  /**
   * How much of the shape the rule would fix: of two that are as fast, the lesser one is better.
   */
  int complexity() {
    return (blocks == 0 ? 0 : 1) + (tiles == 0 ? 0 : 1);
  }

  @Override
  public String toString() {
    return OptionNames.of(algorithm)
        + (blocks == 0 ? "" : ", " + blocks + " blocks")
        + (tiles == 0 ? "" : ", " + tiles + " tiles");
  }
}
