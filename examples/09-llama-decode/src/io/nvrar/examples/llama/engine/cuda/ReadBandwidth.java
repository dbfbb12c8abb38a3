package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import io.nvrar.examples.llama.weights.ModelException;
import java.util.Arrays;
import java.util.Locale;

/** How fast a GPU reads its own memory by a kernel that does nothing else ({@code read.cu}). */
public final class ReadBandwidth {
  /** Far more than the L2 cache. */
  private static final long MOST_BYTES = 4L << 30;

  private static final long LEAST_BYTES = 1L << 30;
  private static final int WORD_BYTES = 16;
  private static final int THREADS = 1024;
  private static final int BLOCKS_OF_MULTIPROCESSOR = 2;
  private static final int WARMUP = 3;
  private static final int REPEATS = 11;
  private static final double NANOS = 1e9;

  private ReadBandwidth() {}

  /**
   * Measures it.
   *
   * @param rank whose GPU it is
   * @return bytes in a second: the median of several reads of 4 GiB, or of half of what is free
   * @throws ModelException if this build has no kernels for the GPU, or its memory is full
   */
  public static double measure(Device device, int rank) {
    Gpu gpu = new Gpu(device, rank);
    long free = gpu.freeBytes();
    if (free < LEAST_BYTES) {
      throw new ModelException(
          String.format(
              Locale.ROOT,
              "What is read to measure the bandwidth takes %d bytes, and %s has %d free: %d bytes are missing.",
              LEAST_BYTES,
              gpu,
              free,
              LEAST_BYTES - free));
    }
    long bytes = Math.min(MOST_BYTES, free / 2) / WORD_BYTES * WORD_BYTES;
    try (Resources resources = new Resources();
        DeviceEvent begin = device.createEvent();
        DeviceEvent end = device.createEvent()) {
      DeviceStream stream = device.createStream();
      resources.own(stream::close);
      CudaKernel read = resources.own(KernelImage.load(gpu, "read")).kernel("llama_read");
      DeviceBuffer words = resources.zeroed(gpu, stream, DataType.UINT8, bytes);
      DeviceBuffer found = resources.allocate(device, DataType.INT32, 1);
      KernelArguments arguments = new KernelArguments();
      arguments.clear().parameter().pointer(words).int64(bytes / WORD_BYTES).pointer(found);
      LaunchConfig shape =
          LaunchConfig.of(BLOCKS_OF_MULTIPROCESSOR * gpu.multiprocessors(), THREADS);
      double[] seconds = new double[REPEATS];
      for (int i = -WARMUP; i < REPEATS; i++) {
        begin.record(stream);
        read.launch(stream, shape, arguments);
        end.record(stream);
        stream.synchronize();
        if (i >= 0) {
          seconds[i] = end.elapsedSince(begin).toNanos() / NANOS;
        }
      }
      Arrays.sort(seconds);
      return bytes / seconds[REPEATS / 2];
    }
  }
}
