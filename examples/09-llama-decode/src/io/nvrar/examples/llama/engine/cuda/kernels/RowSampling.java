package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DeviceBuffer;
import io.nvrar.cuda.KernelArguments;
import org.jspecify.annotations.Nullable;

/**
 * What the choice of each row's token depends on beside its logits, in device memory.
 *
 * @param temperatures FLOAT32 [rows]; 0 for the greatest logit. Null: that is for all rows, and the
 *     rest is null too
 * @param seed INT64 [1]
 * @param sequences INT32 [rows]
 * @param positions INT32 [rows]: of the tokens that went in
 */
public record RowSampling(
    @Nullable DeviceBuffer temperatures,
    @Nullable DeviceBuffer seed,
    @Nullable DeviceBuffer sequences,
    @Nullable DeviceBuffer positions) {

  /** The greatest logit of every row. */
  public static final RowSampling GREEDY = new RowSampling(null, null, null, null);

  /** Appends the fields of {@code Sampling}. */
  KernelArguments put(KernelArguments arguments) {
    return arguments.pointer(temperatures).pointer(seed).pointer(sequences).pointer(positions);
  }
}
