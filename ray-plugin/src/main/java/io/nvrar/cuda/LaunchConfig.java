package io.nvrar.cuda;

import java.util.Locale;

/**
 * The launch configuration of a {@link CudaKernel}, like CUDA's {@code cudaLaunchConfig_t}: the
 * grid, the block, the dynamic shared memory and the launch's attributes. Immutable; each method
 * that sets a value returns a copy.
 *
 * <pre>{@code
 * LaunchConfig config = LaunchConfig.of(132, 256).dynamicSharedBytes(96 << 10).cluster(4);
 * }</pre>
 *
 * <p>Values that no GPU takes are refused by an {@link IllegalArgumentException}. The limits of a
 * GPU and of a kernel are checked by the launch.
 */
public final class LaunchConfig {
  private static final int MAX_BLOCK_THREADS = 1024;

  private final int[] grid;
  private final int[] block;
  private final int dynamicSharedBytes;
  private final int cluster;
  private final boolean programmatic;

  private LaunchConfig(
      int[] grid, int[] block, int dynamicSharedBytes, int cluster, boolean programmatic) {
    this.grid = grid;
    this.block = block;
    this.dynamicSharedBytes = dynamicSharedBytes;
    this.cluster = cluster;
    this.programmatic = programmatic;
  }

  /**
   * A grid of one dimension of blocks of one dimension, without dynamic shared memory and
   * attributes.
   *
   * @param gridX the number of blocks, at least 1
   * @param blockX the number of threads of a block, 1 to 1024
   */
  public static LaunchConfig of(int gridX, int blockX) {
    return new LaunchConfig(grid3(gridX, 1, 1), block3(blockX, 1, 1), 0, 1, false);
  }

  private static int[] grid3(int x, int y, int z) {
    return new int[] {require("gridX", x, 1), require("gridY", y, 1), require("gridZ", z, 1)};
  }

  private static int[] block3(int x, int y, int z) {
    int[] block = {require("blockX", x, 1), require("blockY", y, 1), require("blockZ", z, 1)};
    if ((double) x * y * z > MAX_BLOCK_THREADS) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a block has %d x %d x %d threads, must be %d at most",
              x,
              y,
              z,
              MAX_BLOCK_THREADS));
    }
    return block;
  }

  private static int require(String name, int value, int least) {
    if (value < least) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%s is %d, must be at least %d", name, value, least));
    }
    return value;
  }

  /**
   * Sets the grid.
   *
   * @param x the number of blocks in x, at least 1, and so for y and z
   */
  public LaunchConfig grid(int x, int y, int z) {
    return new LaunchConfig(grid3(x, y, z), block, dynamicSharedBytes, cluster, programmatic);
  }

  /**
   * Sets the block.
   *
   * @param x the number of threads in x, at least 1, and so for y and z; 1024 at most together
   */
  public LaunchConfig block(int x, int y, int z) {
    return new LaunchConfig(grid, block3(x, y, z), dynamicSharedBytes, cluster, programmatic);
  }

  /**
   * Sets the dynamic shared memory of a block.
   *
   * @param bytes 0 or more; more than 48 KiB, the kernel's static shared memory included, need
   *     {@link CudaKernel#maxDynamicSharedBytes}
   */
  public LaunchConfig dynamicSharedBytes(int bytes) {
    return new LaunchConfig(
        grid, block, require("dynamicSharedBytes", bytes, 0), cluster, programmatic);
  }

  /**
   * Sets how many consecutive blocks in x form a thread block cluster. Clusters need compute
   * capability 9.0; more than 8 blocks also need {@link CudaKernel#allowNonPortableClusters}.
   *
   * @param blocks 1 for a launch without clusters, else a divisor of the number of blocks in x
   */
  public LaunchConfig cluster(int blocks) {
    return new LaunchConfig(
        grid, block, dynamicSharedBytes, require("cluster", blocks, 1), programmatic);
  }

  /**
   * Sets whether the launch is a programmatic dependent one: the kernel may start while the kernel
   * before it on the stream still runs. The kernel must execute {@code griddepcontrol.wait} in all
   * its threads before it touches memory that others use, and before it ends. Needs compute
   * capability 9.0.
   */
  public LaunchConfig programmatic(boolean value) {
    return new LaunchConfig(grid, block, dynamicSharedBytes, cluster, value);
  }

  /** Throws unless the grid consists of whole clusters. */
  void requireWholeClusters() {
    if (grid[0] % cluster != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "a grid of %d blocks in x cannot be divided into clusters of %d",
              grid[0],
              cluster));
    }
  }

  /** The number of blocks in a dimension: 0 for x, 1 for y, 2 for z. */
  int grid(int dimension) {
    return grid[dimension];
  }

  /** The number of threads in a dimension of a block: 0 for x, 1 for y, 2 for z. */
  int block(int dimension) {
    return block[dimension];
  }

  int dynamicSharedBytes() {
    return dynamicSharedBytes;
  }

  int cluster() {
    return cluster;
  }

  boolean programmatic() {
    return programmatic;
  }

  /** Such as {@code 7 x 1 x 1 blocks of 96 x 1 x 1 threads}. */
  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%d x %d x %d blocks of %d x %d x %d threads%s%s%s",
        grid[0],
        grid[1],
        grid[2],
        block[0],
        block[1],
        block[2],
        dynamicSharedBytes == 0 ? "" : " with " + dynamicSharedBytes + " bytes of shared memory",
        cluster == 1 ? "" : " in clusters of " + cluster,
        programmatic ? ", programmatic" : "");
  }
}
