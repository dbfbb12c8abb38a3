package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.engine.cuda.kernels.RowSampling;
import org.jspecify.annotations.Nullable;

/**
 * How the rows of a step pass through the model. All methods but {@link #close} only enqueue, or
 * record where the stream captures.
 */
interface StepPath extends Resources.Resource {

  /** The layers of the model. */
  int layers();

  /**
   * The context that {@link #enqueueLayers} is to be given for positions below a number: steps with
   * the same one may be recorded as one.
   */
  int contextFor(int positions);

  /**
   * Embedding and layers: leaves the first rows of the state ready for the head.
   *
   * @param rows how many
   * @param isDecode whether no two rows are of one sequence
   * @param context of {@link #contextFor}: for more than any position of these rows
   */
  void enqueueLayers(int rows, boolean isDecode, int context);

  /**
   * The head of some rows of the last {@link #enqueueLayers}.
   *
   * @param rows which
   * @param logits FLOAT32 [rows][this rank's vocabulary]
   */
  void enqueueLogits(int[] rows, DeviceBuffer logits);

  /**
   * The head of the first rows.
   *
   * @return FLOAT32 [rows][this rank's vocabulary], until the next head
   */
  DeviceBuffer enqueueHead(int rows);

  /**
   * The head of the first rows, and the greatest key of each.
   *
   * @param best INT64 [rows]
   */
  void enqueueBest(int rows, RowSampling sampling, DeviceBuffer best);

  /**
   * Puts a stamp behind each kernel of {@link #enqueueLayers} and {@link #enqueueBest} from now on.
   *
   * @param stamps null to stop that
   */
  void stamp(@Nullable StepStamps stamps);

  /**
   * Puts a stamp behind what was just enqueued, if there are to be stamps.
   *
   * @param kernel what it does
   * @param layer of it; -1 outside of the layers
   */
  void ended(String kernel, int layer);

  /** Whether its kernels are launched with programmatic launch. */
  boolean isProgrammatic();
}
