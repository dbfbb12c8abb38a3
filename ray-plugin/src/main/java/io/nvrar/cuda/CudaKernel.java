package io.nvrar.cuda;

import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.KernelBinding;
import io.nvrar.internal.device.cuda.CudaDevice;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.GpuContext;
import java.lang.ref.Reference;
import java.util.Locale;
import jcuda.driver.CUresult;

/**
 * A kernel of a {@link CudaModule}. Launches allocate nothing. Not thread-safe: a kernel that
 * several threads launch is got by each from {@link CudaModule#kernel}.
 *
 * <p><b>Errors.</b> Each method throws an {@link IllegalStateException} if the module is closed,
 * and the exception of the driver's status if the driver refuses the call: {@link
 * io.nvrar.CollectiveFatalException} if the process's context is broken, {@link
 * IllegalStateException} if a value or the capture does not permit it, else {@link
 * io.nvrar.CollectiveException}. A kernel that fails while it runs is reported by a later call.
 */
public final class CudaKernel {
  // CUfunction_attribute
  private static final int LOCAL_BYTES = 3;
  private static final int MAX_DYNAMIC_SHARED_BYTES = 8;
  private static final int NON_PORTABLE_CLUSTERS = 14;

  private final CudaModule module;
  private final GpuContext context;
  private final String name;
  private final long function;
  private final LaunchMemory memory = new LaunchMemory();
  private boolean checked;

  CudaKernel(CudaModule module, GpuContext context, String name, long function) {
    this.module = module;
    this.context = context;
    this.name = name;
    this.function = function;
    // The driver loads a kernel when it is first used, which waits for all that runs on the GPU;
    // that may wait for this member. So it is used now.
    check(
        "cuFuncGetAttribute",
        context.status(() -> KernelBinding.cuFuncGetAttribute(new int[1], LOCAL_BYTES, function)));
  }

  /**
   * Allows launches with up to this much dynamic shared memory. Without this call 48 KiB are
   * allowed, the kernel's static shared memory included.
   */
  public CudaKernel maxDynamicSharedBytes(int bytes) {
    return set(MAX_DYNAMIC_SHARED_BYTES, bytes);
  }

  /** Allows clusters of up to 16 blocks, where the GPU has such; without this call 8. */
  public CudaKernel allowNonPortableClusters() {
    return set(NON_PORTABLE_CLUSTERS, 1);
  }

  /** How many clusters of a configuration with {@link LaunchConfig#cluster} run at once. */
  public int maxActiveClusters(LaunchConfig config) {
    module.requireOpen(name);
    int[] clusters = new int[1];
    check(
        "cuOccupancyMaxActiveClusters",
        context.status(
            () ->
                KernelBinding.cuOccupancyMaxActiveClusters(
                    clusters, function, memory.write(config, 0))));
    return clusters[0];
  }

  /**
   * Enqueues a launch on a stream, or records it if the stream captures. The first launch compares
   * the sizes of the arguments with those of the kernel's parameters, with drivers of CUDA 12.4 or
   * newer; with older ones wrong arguments are undefined behaviour.
   *
   * @param stream a stream of the module's GPU
   * @throws IllegalArgumentException if the stream is not one of the module's GPU, or the arguments
   *     are not those of the kernel
   * @throws IllegalStateException if the stream is closed
   */
  public void launch(DeviceStream stream, LaunchConfig config, KernelArguments arguments) {
    module.requireOpen(name);
    requireOwn(stream);
    if (!checked) {
      checkParameters(arguments);
    }
    context.enter();
    int status;
    try {
      status =
          KernelBinding.cuLaunchKernelEx(
              memory.write(config, stream.handle()), function, arguments.pointers(), 0);
    } finally {
      Reference.reachabilityFence(this);
      Reference.reachabilityFence(arguments);
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuLaunchKernelEx", this + ", " + config, status);
    }
  }

  private void requireOwn(DeviceStream stream) {
    if (!(stream.device() instanceof CudaDevice gpu) || gpu.context() != context) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "%s needs a stream of its GPU, not one of %s", this, stream.device()));
    }
  }

  // A struct that Java and CUDA lay out differently would be read past its end.
  private void checkParameters(KernelArguments arguments) {
    int[] wanted = KernelBinding.parameterBytes(function, KernelArguments.MAX_PARAMETERS);
    if (wanted.length > 0) {
      if (wanted.length != arguments.count()) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "%s has %d parameters, and is given %d",
                this,
                wanted.length,
                arguments.count()));
      }
      for (int i = 0; i < wanted.length; i++) {
        if (wanted[i] != arguments.size(i)) {
          throw new IllegalArgumentException(
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
    checked = true;
  }

  private CudaKernel set(int attribute, int value) {
    module.requireOpen(name);
    check(
        "cuFuncSetAttribute",
        context.status(() -> KernelBinding.cuFuncSetAttribute(function, attribute, value)));
    return this;
  }

  private void check(String driverFunction, int status) {
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of(driverFunction, this, status);
    }
  }

  /** Such as {@code scale of GPU 0}. */
  @Override
  public String toString() {
    return name + " of " + context;
  }
}
