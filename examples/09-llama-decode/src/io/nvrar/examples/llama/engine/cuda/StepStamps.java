package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.Resources;
import java.util.ArrayList;
import java.util.List;

/** Puts kernels into a step that note when those before them end ({@code stamp.cu}). */
final class StepStamps implements Resources.Resource {
  /** The most of a layer, which the plain path has. */
  private static final int MARKS_OF_LAYER = 11;

  /** The most outside of the layers: of a step of 64 rows, whose head is multiplied twice. */
  private static final int OTHER_MARKS = 16;

  private static final double NANOS_OF_MICRO = 1e3;

  private final Resources resources = new Resources();
  private final boolean programmatic;
  private final int steps;
  private final int marks;
  private final CudaKernel kernel;
  private final DeviceBuffer times;
  private final DeviceBuffer counts;
  private final List<String> names = new ArrayList<>();
  private final List<Integer> layers = new ArrayList<>();
  private final KernelArguments arguments = new KernelArguments();

  /**
   * Makes room.
   *
   * @param programmatic whether the kernels of the step are launched so
   * @param steps how many of the last steps are kept
   * @param modelLayers layers of a step
   */
  StepStamps(Gpu gpu, DeviceStream stream, boolean programmatic, int steps, int modelLayers) {
    this.programmatic = programmatic;
    this.steps = steps;
    marks = Math.addExact(OTHER_MARKS, Math.multiplyExact(MARKS_OF_LAYER, modelLayers));
    try {
      kernel = resources.own(KernelImage.load(gpu, "stamp")).kernel("llama_stamp");
      times = resources.zeroed(gpu, stream, DataType.INT64, (long) steps * marks);
      counts = resources.zeroed(gpu, stream, DataType.INT32, marks);
    } catch (RuntimeException | Error e) {
      resources.closeAfter(e);
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
    if (names.size() == marks) {
      throw new IllegalStateException("a step has more than " + marks + " stamps");
    }
    arguments
        .clear()
        .parameter()
        .pointer(times)
        .pointer(counts)
        .int32(names.size())
        .int32(marks)
        .int32(steps);
    kernel.launch(stream, LaunchConfig.of(1, 1).programmatic(programmatic), arguments);
    names.add(name);
    layers.add(layer);
  }

  /** What the last steps took on average; the first stamp is where a step begins. */
  StepTrace trace(DeviceStream stream) {
    long[] all = new long[steps * marks];
    times.copyTo(all, stream);
    double[] ends = new double[names.size()];
    for (int step = 0; step < steps; step++) {
      for (int mark = 0; mark < ends.length; mark++) {
        ends[mark] += (all[step * marks + mark] - all[step * marks]) / NANOS_OF_MICRO / steps;
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
