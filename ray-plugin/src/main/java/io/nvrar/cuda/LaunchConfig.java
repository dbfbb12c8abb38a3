package io.nvrar.cuda;

import java.util.Locale;

/**
 * The launch configuration of a {@link CudaKernel}, like CUDA's {@code cudaLaunchConfig_t}: the
 * grid, the block, the dynamic shared memory and the launch's attributes. Immutable.
 *
 * <pre>{@code
 * LaunchConfig config = LaunchConfig.of(132, 256).dynamicSharedBytes(96 << 10).cluster(4);
 * }</pre>
 *
 * @param gridX the number of blocks in x, at least 1
 * @param gridY the number of blocks in y, at least 1
 * @param gridZ the number of blocks in z, at least 1
 * @param blockX the number of threads of a block in x, at least 1
 * @param blockY the number of threads of a block in y, at least 1
 * @param blockZ the number of threads of a block in z, at least 1
 * @param dynamicSharedBytes the bytes of dynamic shared memory of a block; more than 48 KiB need
 *     {@link CudaKernel#maxDynamicSharedBytes}
 * @param cluster the number of consecutive blocks in x that form a thread block cluster; 1 for a
 *     launch without clusters. Clusters need compute capability 9.0, more than 8 blocks also {@link
 *     CudaKernel#allowNonPortableClusters}
 * @param programmatic whether the launch is a programmatic dependent one: the kernel may start
 *     while the kernel before it on the stream still runs, and must execute {@code
 *     griddepcontrol.wait} before it touches memory that others use. Needs compute capability 9.0
 */
public record LaunchConfig(
    int gridX,
    int gridY,
    int gridZ,
    int blockX,
    int blockY,
    int blockZ,
    int dynamicSharedBytes,
    int cluster,
    boolean programmatic) {

  /**
   * Checks the values; the limits of a GPU and of a kernel are checked by the launch.
   *
   * @throws IllegalArgumentException if a dimension is less than 1, or the bytes are negative
   */
  public LaunchConfig {
    require("gridX", gridX, 1);
    require("gridY", gridY, 1);
    require("gridZ", gridZ, 1);
    require("blockX", blockX, 1);
    require("blockY", blockY, 1);
    require("blockZ", blockZ, 1);
    require("dynamicSharedBytes", dynamicSharedBytes, 0);
    require("cluster", cluster, 1);
  }

  /** One-dimensional blocks in a one-dimensional grid, without shared memory and attributes. */
  public static LaunchConfig of(int gridX, int blockX) {
    return new LaunchConfig(gridX, 1, 1, blockX, 1, 1, 0, 1, false);
  }

  /** One-dimensional blocks in a two-dimensional grid, without shared memory and attributes. */
  public static LaunchConfig of(int gridX, int gridY, int blockX) {
    return new LaunchConfig(gridX, gridY, 1, blockX, 1, 1, 0, 1, false);
  }

  /** A copy with another grid. */
  public LaunchConfig grid(int x, int y, int z) {
    return new LaunchConfig(
        x, y, z, blockX, blockY, blockZ, dynamicSharedBytes, cluster, programmatic);
  }

  /** A copy with other blocks. */
  public LaunchConfig block(int x, int y, int z) {
    return new LaunchConfig(
        gridX, gridY, gridZ, x, y, z, dynamicSharedBytes, cluster, programmatic);
  }

  /** A copy with another size of {@link #dynamicSharedBytes()}. */
  public LaunchConfig dynamicSharedBytes(int bytes) {
    return new LaunchConfig(
        gridX, gridY, gridZ, blockX, blockY, blockZ, bytes, cluster, programmatic);
  }

  /** A copy with another {@link #cluster()}. */
  public LaunchConfig cluster(int blocks) {
    return new LaunchConfig(
        gridX, gridY, gridZ, blockX, blockY, blockZ, dynamicSharedBytes, blocks, programmatic);
  }

  /** A copy with or without {@link #programmatic()}. */
  public LaunchConfig programmatic(boolean value) {
    return new LaunchConfig(
        gridX, gridY, gridZ, blockX, blockY, blockZ, dynamicSharedBytes, cluster, value);
  }

  private static void require(String name, int value, int least) {
    if (value < least) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "%s is %d, must be at least %d", name, value, least));
    }
  }

  /** Such as {@code 7 x 1 x 1 blocks of 96 x 1 x 1 threads}. */
  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%d x %d x %d blocks of %d x %d x %d threads%s%s%s",
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        dynamicSharedBytes == 0 ? "" : " with " + dynamicSharedBytes + " bytes of shared memory",
        cluster == 1 ? "" : " in clusters of " + cluster,
        programmatic ? ", programmatic" : "");
  }
}
