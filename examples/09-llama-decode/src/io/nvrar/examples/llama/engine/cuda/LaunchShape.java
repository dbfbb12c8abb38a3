package io.nvrar.examples.llama.engine.cuda;

import java.util.Locale;

/**
 * How many blocks of how many threads a launch has.
 *
 * @param gridX blocks
 * @param gridY blocks
 * @param gridZ blocks
 * @param threads threads of a block
 * @param sharedBytes dynamic shared memory of a block
 * @param cluster consecutive blocks of x that form a cluster; 1 for none
 * @param programmatic whether the kernel may start while the one before it on the stream still
 *     runs; the kernel executes {@code griddepcontrol.wait}
 */
record LaunchShape(
    int gridX,
    int gridY,
    int gridZ,
    int threads,
    int sharedBytes,
    int cluster,
    boolean programmatic) {

  /** A launch without shared memory, clusters and overlap. */
  static LaunchShape of(int blocks, int threads) {
    return of(blocks, 1, threads);
  }

  /** A launch without shared memory, clusters and overlap. */
  static LaunchShape of(int gridX, int gridY, int threads) {
    return new LaunchShape(gridX, gridY, 1, threads, 0, 1, false);
  }

  LaunchShape shared(int bytes) {
    return new LaunchShape(gridX, gridY, gridZ, threads, bytes, cluster, programmatic);
  }

  LaunchShape cluster(int blocks) {
    return new LaunchShape(gridX, gridY, gridZ, threads, sharedBytes, blocks, programmatic);
  }

  LaunchShape programmatic(boolean value) {
    return new LaunchShape(gridX, gridY, gridZ, threads, sharedBytes, cluster, value);
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%d x %d x %d blocks of %d threads%s%s%s",
        gridX,
        gridY,
        gridZ,
        threads,
        sharedBytes == 0 ? "" : " with " + sharedBytes + " bytes",
        cluster == 1 ? "" : " in clusters of " + cluster,
        programmatic ? ", programmatic" : "");
  }
}
