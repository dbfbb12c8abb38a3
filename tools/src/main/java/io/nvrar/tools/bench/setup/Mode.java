package io.nvrar.tools.bench.setup;

import java.util.List;

/** How the calls of a batch are submitted. */
public enum Mode {
  /** One after the other; a call on the host has its result when it returns. */
  CALLS,
  /** A batch is a graph of a GPU. */
  GRAPH,
  /** One after the other to a stream of a GPU. */
  EAGER,
  /** As the first on a GPU, with about 1 us of computing after each call, itself subtracted. */
  GRAPH_COMPUTE,
  /** As the second on a GPU, with the same. */
  EAGER_COMPUTE;

  /** What computes only is measured under the mode's name with this behind it. */
  public static final String ALONE = "-alone";

  public static final List<Mode> OF_GPUS = List.of(GRAPH, EAGER, GRAPH_COMPUTE, EAGER_COMPUTE);

  public boolean inGraph() {
    return this == GRAPH || this == GRAPH_COMPUTE;
  }

  public boolean withCompute() {
    return this == GRAPH_COMPUTE || this == EAGER_COMPUTE;
  }
}
