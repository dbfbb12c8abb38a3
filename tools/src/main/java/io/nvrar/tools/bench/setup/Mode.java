package io.nvrar.tools.bench.setup;

import java.util.List;

/** How the calls of a batch are submitted. */
public enum Mode {
  /** One after the other on the host, where a call is complete when it returns. */
  CALLS(Between.NOTHING),
  /** A batch is one CUDA graph. */
  GRAPH(Between.NOTHING),
  /** One after the other on a GPU stream. */
  EAGER(Between.NOTHING),
  GRAPH_COMPUTE(Between.COMPUTE),
  EAGER_COMPUTE(Between.COMPUTE),
  GRAPH_COLD(Between.SWEEP);

  /** The kernel between two calls, whose own time is subtracted. */
  public enum Between {
    NOTHING,
    /** About 1 us of computing after each call, which begins by reading the call's result. */
    COMPUTE,
    /** Takes everything else out of the L2 cache before each call. */
    SWEEP
  }

  /** The suffix of the mode's name under which the kernel between the calls is measured alone. */
  public static final String ALONE = "-alone";

  public static final List<Mode> OF_GPUS =
      List.of(GRAPH, EAGER, GRAPH_COMPUTE, EAGER_COMPUTE, GRAPH_COLD);

  private final Between between;

  Mode(Between between) {
    this.between = between;
  }

  public boolean inGraph() {
    return this == GRAPH || this == GRAPH_COMPUTE || this == GRAPH_COLD;
  }

  public Between between() {
    return between;
  }
}
