package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.Shard;

/** Brings the logits of all ranks' vocabularies to the host of each rank. */
final class LogitsGather implements Resources.Resource {
  private final Resources resources = new Resources();
  private final CollectiveGroup group;
  private final DeviceStream stream;
  private final int[] vocabularies;
  private final int largest;
  private final DeviceBuffer own;
  private final DeviceBuffer all;
  private final DeviceBuffer onHost;

  /** For up to so many rows. */
  LogitsGather(Gpu gpu, CollectiveGroup group, DeviceStream stream, LlamaConfig config, int rows) {
    this.group = group;
    this.stream = stream;
    int ranks = group.worldSize();
    vocabularies = new int[ranks];
    for (int rank = 0; rank < ranks; rank++) {
      vocabularies[rank] = Shard.vocabularyOf(config, rank, ranks).count();
    }
    largest = Shard.largestVocabulary(config, ranks);
    long count = (long) rows * largest;
    try {
      // A smaller vocabulary leaves the end of it as it is.
      own = resources.zeroed(gpu, stream, DataType.FLOAT32, count);
      all = resources.allocate(group.device(), DataType.FLOAT32, ranks * count);
      onHost = resources.allocatePinned(group.device(), DataType.FLOAT32, ranks * count);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
      throw e;
    }
  }

  /** The bytes of a row, in the GPU's memory. */
  static long bytesOfRow(LlamaConfig config, int worldSize) {
    return (1L + worldSize) * Shard.largestVocabulary(config, worldSize) * Float.BYTES;
  }

  /** The bytes of a row, in the host's pinned memory. */
  static long hostBytesOfRow(LlamaConfig config, int worldSize) {
    return (long) worldSize * Shard.largestVocabulary(config, worldSize) * Float.BYTES;
  }

  /** FLOAT32 [rows][this rank's vocabulary], to be filled before {@link #gather}. */
  DeviceBuffer own() {
    return own;
  }

  /** Gathers the first rows, and waits for them. */
  void gather(int rows, float[][] logits) {
    long count = (long) rows * largest;
    DeviceBuffer gathered = all.slice(0, count * vocabularies.length);
    group.allGather(own.slice(0, count), gathered, stream);
    stream.copy(gathered, onHost);
    stream.synchronize();
    int at = 0;
    for (int rank = 0; rank < vocabularies.length; rank++) {
      int size = vocabularies[rank];
      for (int row = 0; row < rows; row++) {
        onHost.copyTo(rank * count + (long) row * size, logits[row], at, size);
      }
      at += size;
    }
  }

  @Override
  public void close() {
    resources.close();
  }
}
