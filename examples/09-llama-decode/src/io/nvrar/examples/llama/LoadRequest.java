package io.nvrar.examples.llama;

import io.nvrar.examples.llama.weights.ModelSource;
import java.io.Serializable;
import java.util.Arrays;

/**
 * What an actor is to load, and for what. A class and not a record: Ray's serializer cannot read
 * records back.
 */
public final class LoadRequest implements Serializable {
  private static final long serialVersionUID = 1L;

  private final ModelSource model;
  private final int[][] capacities;

  /**
   * With all of it.
   *
   * @param model the model
   * @param capacities of the sequences that will be decoded together, for each time
   */
  public LoadRequest(ModelSource model, int[]... capacities) {
    this.model = model;
    this.capacities = Arrays.stream(capacities).map(int[]::clone).toArray(int[][]::new);
  }

  /** The model. */
  public ModelSource model() {
    return model;
  }

  /** The capacities of the sequences that will be decoded together, for each time; not copied. */
  public int[][] capacities() {
    return capacities;
  }
}
