package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.cuda.KernelArguments;
import java.util.Locale;

/**
 * How the blocks and warps of {@code gemm.cu} divide a product: y[batch][features] =
 * x[batch][columns] times W[features][columns] transposed.
 *
 * <p>Each multiprocessor has one block, and each block the same number of features but for the last
 * one, so that all end together. A block walks over the columns in stages of about 32 KB: smaller
 * ones cost the thread that copies them more than they bring.
 *
 * @param batch rows of x
 * @param features of the result; of a gated product half the rows of W
 * @param columnBlocks blocks of 64 columns
 * @param tileFeatures features that a block sums up at a time
 * @param tiles tiles of the whole product
 * @param stageBlocks blocks of columns of a stage
 * @param stages stages of the ring
 * @param groups groups of features of a tile that a warp multiplies at a time
 * @param groupSlots the power of two at or above {@code groups}; the warps are {@code groupSlots}
 *     times the slots of columns
 * @param unrolled blocks of columns that a warp loads before it multiplies
 * @param weightBytes bytes of W in a stage; of a gated product, of each half
 * @param stageBytes bytes of a stage
 * @param sumsOffset where the warps' sums begin behind the ring
 * @param sharedBytes dynamic shared memory of a block
 * @param blocks blocks of the launch
 */
public record GemmPlan(
    int batch,
    int features,
    int columnBlocks,
    int tileFeatures,
    int tiles,
    int stageBlocks,
    int stages,
    int groups,
    int groupSlots,
    int unrolled,
    int weightBytes,
    int stageBytes,
    int sumsOffset,
    int sharedBytes,
    int blocks) {

  public static final int MAX_BATCH = 32;

  /** Warps that multiply; one more copies. */
  static final int WARPS = 8;

  static final int THREADS = (WARPS + 1) * 32;

  private static final int ROW_BYTES = 128;
  private static final int ALIGNMENT = 1024;
  private static final int MAX_STAGES = 16;
  private static final int MIN_STAGES = 2;
  private static final int STAGE_BYTES = 32 << 10;

  /** More than half of a multiprocessor's, so that it never has two blocks. */
  private static final int RING_BYTES = 200 << 10;

  /** A stage is not made so large that there are fewer than these. */
  private static final int WANTED_STAGES = 3;

  /** Behind the ring: a warp reads whole groups, and so rows that the last stage does not have. */
  private static final int OVERREAD_BYTES = 2048;

  /** For what a kernel has beside its dynamic shared memory. */
  private static final int STATIC_BYTES = 1024;

  /**
   * Plans a product.
   *
   * @param batch rows of x, at most {@link #MAX_BATCH}
   * @param columns a multiple of {@link MatrixMap#BLOCK_COLUMNS}
   * @param gated whether W is gate and up, of {@code features} rows each
   * @param multiprocessors of the GPU
   * @param sharedBytesOfBlock the most shared memory that a block may have
   * @throws IllegalArgumentException if there is no such product
   */
  static GemmPlan of(
      int batch,
      int features,
      int columns,
      boolean gated,
      int multiprocessors,
      int sharedBytesOfBlock) {
    require(batch, features, columns);
    int parts = gated ? 2 : 1;
    // Rows of W that the tensor cores take at a time, of each part.
    int groupFeatures = 16 / parts;
    int columnBlocks = columns / MatrixMap.BLOCK_COLUMNS;
    int tilesOfBlock = divideUp(divideUp(features, multiprocessors), WARPS * groupFeatures);
    int tileFeatures = divideUp(features, multiprocessors * tilesOfBlock);
    int tiles = divideUp(features, tileFeatures);
    int blocks = Math.min(multiprocessors, tiles);
    int groups = divideUp(tileFeatures, groupFeatures);
    int groupSlots = powerOfTwoFrom(groups);
    int columnSlots = WARPS / groupSlots;

    int rows = tileFeatures * parts;
    int stageBlocks = columnSlots;
    while (stageBlocks * rows * ROW_BYTES < STAGE_BYTES
        && 2 * stageBlocks <= columnBlocks
        && WANTED_STAGES * 2 * stageBlocks * (rows + batch) * ROW_BYTES <= RING_BYTES) {
      stageBlocks *= 2;
    }
    int rounds = stageBlocks / columnSlots;
    int weightBytes = aligned(stageBlocks * tileFeatures * ROW_BYTES);
    int stageBytes = parts * weightBytes + aligned(stageBlocks * batch * ROW_BYTES);
    int allStages = divideUp(columnBlocks, stageBlocks) * divideUp(tiles, blocks);
    int stages = Math.min(Math.min(MAX_STAGES, RING_BYTES / stageBytes), allStages);
    stages = Math.max(MIN_STAGES, stages);
    int sumsBytes = columnSlots * batch * (groups * 16 + 4) * Float.BYTES;
    int besideRing = ALIGNMENT + OVERREAD_BYTES + sumsBytes;
    int limit = maxSharedBytes(sharedBytesOfBlock);
    while (stages > MIN_STAGES && besideRing + stages * stageBytes > limit) {
      stages--;
    }
    int sharedBytes = besideRing + stages * stageBytes;
    if (sharedBytes > limit) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a product of %d rows, %d features and %d columns needs %d bytes of shared memory, and a block has %d",
              batch,
              features,
              columns,
              sharedBytes,
              limit));
    }
    return new GemmPlan(
        batch,
        features,
        columnBlocks,
        tileFeatures,
        tiles,
        stageBlocks,
        stages,
        groups,
        groupSlots,
        rounds % 4 == 0 ? 4 : rounds % 2 == 0 ? 2 : 1,
        weightBytes,
        stageBytes,
        stages * stageBytes + OVERREAD_BYTES,
        sharedBytes,
        blocks);
  }

  /** The most dynamic shared memory of any plan. */
  static int maxSharedBytes(int sharedBytesOfBlock) {
    return sharedBytesOfBlock - STATIC_BYTES;
  }

  /** The tiles of 8 columns that hold the rows of x. */
  int columnTiles() {
    return divideUp(batch, 8);
  }

  /** Appends the plan's fields of {@code GemmArgs}. */
  KernelArguments put(KernelArguments arguments) {
    return arguments
        .int32(batch)
        .int32(features)
        .int32(columnBlocks)
        .int32(tileFeatures)
        .int32(tiles)
        .int32(stageBlocks)
        .int32(stages)
        .int32(groups)
        .int32(groupSlots)
        .int32(unrolled)
        .int32(weightBytes)
        .int32(stageBytes)
        .int32(sumsOffset);
  }

  private static void require(int batch, int features, int columns) {
    if (batch < 1 || batch > MAX_BATCH) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "a product has 1 to %d rows, not %d", MAX_BATCH, batch));
    }
    if (features < 1) {
      throw new IllegalArgumentException("a product has 1 feature or more, not " + features);
    }
    if (columns < 1 || columns % MatrixMap.BLOCK_COLUMNS != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a product's columns are a multiple of %d, not %d",
              MatrixMap.BLOCK_COLUMNS,
              columns));
    }
  }

  private static int powerOfTwoFrom(int value) {
    return value == 1 ? 1 : Integer.highestOneBit(value - 1) * 2;
  }

  private static int divideUp(int value, int by) {
    return (value + by - 1) / by;
  }

  private static int aligned(int bytes) {
    return divideUp(bytes, ALIGNMENT) * ALIGNMENT;
  }
}
