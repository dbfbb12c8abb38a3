package io.nvrar.examples.llama;

import io.nvrar.examples.llama.engine.cuda.Prefill;
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
  private final Prefill prefill;
  private final int[][] capacities;

  /**
   * With all of it.
   *
   * @param model the model
   * @param prefill how prompts are to pass through it on GPUs
   * @param capacities of the sequences that will be decoded together, for each time
   */
  public LoadRequest(ModelSource model, Prefill prefill, int[]... capacities) {
    this.model = model;
    this.prefill = prefill;
    this.capacities = Arrays.stream(capacities).map(int[]::clone).toArray(int[][]::new);
  }

  /** The model. */
  public ModelSource model() {
    return model;
  }

  /** How prompts are to pass through it on GPUs. */
  public Prefill prefill() {
    return prefill;
  }

  /** The capacities of the sequences that will be decoded together, for each time; not copied. */
  public int[][] capacities() {
    return capacities;
  }
}
