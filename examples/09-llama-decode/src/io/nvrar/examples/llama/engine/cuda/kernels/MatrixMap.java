package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import java.util.Locale;

/** Tensor maps of matrices as {@code tile_copy.cuh} takes them: in blocks of 64 columns. */
public final class MatrixMap {
  /** Columns of a block: 128 bytes, the width of the swizzle. */
  public static final int BLOCK_COLUMNS = 64;

  private static final int ADDRESS_ALIGNMENT = 16;

  private MatrixMap() {}

  /**
   * Describes a matrix [rows][columns] that begins where the buffer does.
   *
   * @param columns a multiple of {@link #BLOCK_COLUMNS}
   * @param boxRows rows of a box, at most 256
   * @param boxBlocks blocks of columns of a box, at most 256
   */
  static TensorMap of(
      Gpu gpu, DeviceBuffer buffer, long rows, int columns, int boxRows, int boxBlocks) {
    if (buffer.count() < rows * columns) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a matrix of %d rows and %d columns does not fit in %d elements",
              rows,
              columns,
              buffer.count()));
    }
    if (columns % BLOCK_COLUMNS != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a matrix's columns are a multiple of %d, not %d",
              BLOCK_COLUMNS,
              columns));
    }
    if (buffer.address() % ADDRESS_ALIGNMENT != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a matrix begins at a multiple of %d bytes, not at 0x%x",
              ADDRESS_ALIGNMENT,
              buffer.address()));
    }
    int size = buffer.dataType().sizeBytes();
    return TensorMap.encode(
        gpu,
        buffer,
        new long[] {BLOCK_COLUMNS, rows, columns / BLOCK_COLUMNS},
        new long[] {(long) columns * size, (long) BLOCK_COLUMNS * size},
        new int[] {BLOCK_COLUMNS, boxRows, boxBlocks});
  }
}
