package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.DeviceStream;
import java.util.Locale;

/** A kernel of a loaded {@link KernelImage}. Not thread-safe. */
final class Kernel {
  // CUfunction_attribute
  private static final int LOCAL_BYTES = 3;
  private static final int MAX_DYNAMIC_SHARED_BYTES = 8;
  private static final int NON_PORTABLE_CLUSTERS = 14;

  private final Gpu gpu;
  private final String name;
  private final long function;
  private boolean checked;

  Kernel(Gpu gpu, String name, long function) {
    this.gpu = gpu;
    this.name = name;
    this.function = function;
    // The driver loads a kernel when it is first used, which waits for all that runs on the GPU;
    // that may wait for this rank. So it is used now.
    attribute(LOCAL_BYTES);
  }

  /** Allows launches with this much dynamic shared memory. */
  Kernel maxSharedBytes(int bytes) {
    set(MAX_DYNAMIC_SHARED_BYTES, bytes);
    return this;
  }

  /** Allows clusters of up to 16 blocks; without this, 8. */
  Kernel allowLargeClusters() {
    set(NON_PORTABLE_CLUSTERS, 1);
    return this;
  }

  /** How many clusters of a shape run at once. */
  int mostActiveClusters(LaunchShape shape) {
    int[] clusters = new int[1];
    gpu.enter();
    Driver.check(
        "cuOccupancyMaxActiveClusters",
        this,
        Driver.cuOccupancyMaxActiveClusters(clusters, function, gpu.launchConfig().of(shape, 0)));
    return clusters[0];
  }

  /** Enqueues a launch, or records it if the stream captures. */
  void launch(DeviceStream stream, LaunchShape shape, Arguments arguments) {
    if (!checked) {
      checkParameters(arguments);
    }
    gpu.enter();
    int status =
        Driver.cuLaunchKernelEx(
            gpu.launchConfig().of(shape, stream.handle()), function, arguments.pointers(), 0);
    if (status != 0) {
      Driver.check("cuLaunchKernelEx", this + ", " + shape, status);
    }
  }

  // A struct that Java and CUDA lay out differently would be read past its end.
  private void checkParameters(Arguments arguments) {
    int[] wanted = Driver.parameterBytes(function);
    checked = true;
    if (wanted.length == 0) {
      return;
    }
    if (wanted.length != arguments.count()) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "%s has %d parameters, and is given %d",
              this,
              wanted.length,
              arguments.count()));
    }
    for (int i = 0; i < wanted.length; i++) {
      if (wanted[i] != arguments.size(i)) {
        throw new IllegalStateException(
            String.format(
                Locale.ROOT,
                "parameter %d of %s has %d bytes, and is given %d",
                i,
                this,
                wanted[i],
                arguments.size(i)));
      }
    }
  }

  private int attribute(int attribute) {
    int[] value = new int[1];
    gpu.enter();
    Driver.check("cuFuncGetAttribute", this, Driver.cuFuncGetAttribute(value, attribute, function));
    return value[0];
  }

  private void set(int attribute, int value) {
    gpu.enter();
    Driver.check(
        "cuFuncSetAttribute",
        String.format(Locale.ROOT, "%s and the value %d", this, value),
        Driver.cuFuncSetAttribute(function, attribute, value));
  }

  @Override
  public String toString() {
    return name + " on " + gpu;
  }
}
