package io.nvrar.examples.llama.engine.cuda;

import java.io.Serializable;

/**
 * When the kernels of a step end, on average over steps. A class and not a record: Ray's serializer
 * cannot read records back.
 */
public final class StepTrace implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String[] names;
  private final int[] layers;
  private final double[] ends;

  /**
   * With all of it.
   *
   * @param names what each kernel does; the first is the beginning of the step, and no kernel
   * @param layers the layer of each, -1 outside of them
   * @param ends microseconds from the beginning to the end of each
   */
  public StepTrace(String[] names, int[] layers, double[] ends) {
    this.names = names.clone();
    this.layers = layers.clone();
    this.ends = ends.clone();
  }

  /** How many kernels there are, the beginning included. */
  public int size() {
    return names.length;
  }

  /** What a kernel does. */
  public String name(int kernel) {
    return names[kernel];
  }

  /** Its layer, -1 outside of them. */
  public int layer(int kernel) {
    return layers[kernel];
  }

  /** Microseconds from the beginning of the step to its end. */
  public double end(int kernel) {
    return ends[kernel];
  }
}
