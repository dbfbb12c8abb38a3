package io.nvrar.tools.tune;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.TuningTable.Collective;
import java.util.ArrayList;
import java.util.List;

/**
 * What a table is made for.
 *
 * @param backend CPU or CUDA
 * @param ranks the world size
 * @param ranksPerNode the ranks of a simulated node; the world size: all are in one
 * @param gpus rank r is on GPU r mod gpus; 0: each has its own
 */
record TuneSettings(
    Backend backend,
    int ranks,
    int ranksPerNode,
    int gpus,
    DataType type,
    Collective collective,
    long leastBytes,
    long mostBytes,
    int factor) {

  boolean onGpu() {
    return backend == Backend.CUDA;
  }

  boolean inNodes() {
    return ranksPerNode < ranks;
  }

  List<Long> sizes() {
    List<Long> sizes = new ArrayList<>();
    for (long bytes = leastBytes; bytes <= mostBytes; bytes *= factor) {
      sizes.add(bytes);
    }
    return sizes;
  }

  /** What a rule compares with its limit for a message that the benchmark counts so. */
  long bytesOfRule(long bytes) {
    return switch (collective) {
      case ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL -> Math.max(bytes / ranks, 1);
      case ALL_REDUCE, BROADCAST, REDUCE -> bytes;
    };
  }
}
