package io.nvrar.tools.bench.setup;

import java.util.List;

/** How the calls of a batch are submitted. */
public enum Mode {
  /** One after the other on the host, where a call is complete when it returns. */
  CALLS,
  /** A batch is one CUDA graph. */
  GRAPH,
  /** One after the other on a GPU stream. */
  EAGER,
  /** Like GRAPH, with a kernel of about 1 us after each call, whose own time is subtracted. */
  GRAPH_COMPUTE,
  /** Like EAGER, with the same kernel. */
  EAGER_COMPUTE;

  /** The suffix of the mode's name under which the kernel alone is measured. */
  public static final String ALONE = "-alone";

  public static final List<Mode> OF_GPUS = List.of(GRAPH, EAGER, GRAPH_COMPUTE, EAGER_COMPUTE);

  public boolean inGraph() {
    return this == GRAPH || this == GRAPH_COMPUTE;
  }

  public boolean withCompute() {
    return this == GRAPH_COMPUTE || this == EAGER_COMPUTE;
  }
}
