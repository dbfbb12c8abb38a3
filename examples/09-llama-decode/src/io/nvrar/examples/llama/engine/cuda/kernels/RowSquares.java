package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DeviceBuffer;
import io.nvrar.cuda.KernelArguments;

/**
 * What makes the factor of RMSNorm of each row: the sums of squares of its parts, as the fused
 * all-reduce leaves them.
 *
 * @param sums FLOAT32 [rows][parts]
 * @param parts parts of a row
 * @param hidden elements of a row
 * @param epsilon what is added to the mean square
 */
public record RowSquares(DeviceBuffer sums, int parts, int hidden, float epsilon) {

  /** Appends the fields of {@code RowSquares}; an address has to follow, or the struct's end. */
  KernelArguments put(KernelArguments arguments) {
    return arguments.pointer(sums).int32(parts).float32(1f / hidden).float32(epsilon);
  }

  /** Appends the fields of one that no kernel reads. */
  static KernelArguments putNone(KernelArguments arguments) {
    return arguments.int64(0).int32(0).float32(0).float32(0);
  }
}
