package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.util.ArrayList;
import java.util.List;

/** Puts kernels into a step that note when those before them end ({@code stamp.cu}). */
final class StepStamps implements Resources.Resource {
  /** The most of a step: up to 10 a layer, and the longest model has 126 layers. */
  private static final int MARKS = 2048;

  private static final double NANOS_OF_MICRO = 1e3;

  private final Resources resources = new Resources();
  private final boolean programmatic;
  private final int steps;
  private final Kernel kernel;
  private final DeviceBuffer times;
  private final DeviceBuffer counts;
  private final List<String> names = new ArrayList<>();
  private final List<Integer> layers = new ArrayList<>();
  private final Arguments arguments = new Arguments();

  /**
   * Makes room.
   *
   * @param programmatic whether the kernels of the step are launched so
   * @param steps how many of the last steps are kept
   */
  StepStamps(Gpu gpu, DeviceStream stream, boolean programmatic, int steps) {
    this.programmatic = programmatic;
    this.steps = steps;
    try {
      kernel = resources.own(KernelImage.load(gpu, "stamp")).kernel("llama_stamp");
      times = resources.zeroed(gpu, stream, DataType.INT64, (long) steps * MARKS);
      counts = resources.zeroed(gpu, stream, DataType.INT32, MARKS);
    } catch (RuntimeException | Error e) {
      resources.close();
      throw e;
    }
  }

  /**
   * Enqueues, or records, a stamp behind a kernel.
   *
   * @param name what the kernel does
   * @param layer of the kernel; -1 for one outside of the layers
   */
  void after(DeviceStream stream, String name, int layer) {
    if (names.size() == MARKS) {
      throw new IllegalStateException("a step has more than " + MARKS + " stamps");
    }
    arguments
        .clear()
        .parameter()
        .pointer(times)
        .pointer(counts)
        .int32(names.size())
        .int32(MARKS)
        .int32(steps);
    kernel.launch(stream, LaunchShape.of(1, 1).programmatic(programmatic), arguments);
    names.add(name);
    layers.add(layer);
  }

  /** What the last steps took on average; the first stamp is where a step begins. */
  StepTrace trace(DeviceStream stream) {
    long[] all = new long[steps * MARKS];
    times.copyTo(all, stream);
    double[] ends = new double[names.size()];
    for (int step = 0; step < steps; step++) {
      for (int mark = 0; mark < ends.length; mark++) {
        ends[mark] += (all[step * MARKS + mark] - all[step * MARKS]) / NANOS_OF_MICRO / steps;
      }
    }
    return new StepTrace(
        names.toArray(String[]::new), layers.stream().mapToInt(i -> i).toArray(), ends);
  }

  @Override
  public void close() {
    resources.close();
  }
}
