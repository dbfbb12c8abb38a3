package io.nvrar.cuda;

import io.nvrar.DeviceStream;
import io.nvrar.internal.binding.KernelBinding;
import io.nvrar.internal.device.cuda.CudaStream;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.GpuContext;
import java.lang.ref.Reference;
import java.util.Locale;
import jcuda.driver.CUresult;
import org.jspecify.annotations.Nullable;

/**
 * A kernel of a {@link CudaModule}. Launches allocate nothing. Not thread-safe: each thread that
 * launches a kernel gets an object of its own from {@link CudaModule#kernel}. Limits that are
 * raised here hold for all objects of the same kernel.
 *
 * <p><b>Errors.</b> Each method throws an {@link IllegalStateException} if the module is closed,
 * and the exception of the driver's status if the driver refuses the call: {@link
 * io.nvrar.CollectiveFatalException} if the process's context is broken, {@link
 * IllegalStateException} if a value or the capture does not permit it, else {@link
 * io.nvrar.CollectiveException}. If a kernel fails while it runs, a later call to this library or
 * to CUDA reports that.
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

  /**
   * The sizes of the parameters: what the driver says, or else the first launch; null before it.
   */
  private int @Nullable [] parameterBytes;

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
    context.enter();
    parameterBytes = KernelBinding.parameterBytes(function, KernelArguments.MAX_PARAMETERS + 1);
  }

  /**
   * Allows launches with up to this much dynamic shared memory. Without this call 48 KiB are
   * allowed, the kernel's static shared memory included.
   *
   * @throws IllegalArgumentException if it is negative
   */
  public CudaKernel maxDynamicSharedBytes(int bytes) {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "maxDynamicSharedBytes is " + bytes + ", must be 0 or more");
    }
    return set(MAX_DYNAMIC_SHARED_BYTES, bytes);
  }

  /** Allows clusters of up to 16 blocks, where the GPU has such; without this call 8. */
  public CudaKernel allowNonPortableClusters() {
    return set(NON_PORTABLE_CLUSTERS, 1);
  }

  /** How many clusters of a configuration with {@link LaunchConfig#cluster} run at once. */
  public int maxActiveClusters(LaunchConfig config) {
    int[] clusters = new int[1];
    module.retain(name);
    try {
      check(
          "cuOccupancyMaxActiveClusters",
          context.status(
              () ->
                  KernelBinding.cuOccupancyMaxActiveClusters(
                      clusters, function, memory.write(config, 0))));
    } finally {
      module.release();
    }
    return clusters[0];
  }

  /**
   * Enqueues a launch on a stream, or records it if the stream captures. Each launch compares the
   * arguments with the kernel's parameters, in number and size. Drivers older than CUDA 12.4 do not
   * tell these; there they are compared with the arguments of the first launch, and wrong arguments
   * of the first launch are undefined behaviour.
   *
   * @param stream a stream of the module's GPU, which stays open until this returns
   * @throws IllegalArgumentException if the stream is not one of the module's GPU, or the arguments
   *     are not those of the kernel
   * @throws IllegalStateException if the stream is closed
   */
  public void launch(DeviceStream stream, LaunchConfig config, KernelArguments arguments) {
    if (!(stream instanceof CudaStream own) || own.device().context() != context) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "%s needs a stream of its GPU, not one of %s", this, stream.device()));
    }
    module.retain(name);
    try {
      checkParameters(arguments);
      launchOn(own, config, arguments);
    } finally {
      module.release();
    }
  }

  private void launchOn(CudaStream stream, LaunchConfig config, KernelArguments arguments) {
    long handle = stream.retain("launch");
    int status;
    try {
      context.enter();
      status =
          KernelBinding.cuLaunchKernelEx(
              memory.write(config, handle), function, arguments.pointers(), 0);
    } finally {
      stream.release();
      Reference.reachabilityFence(this);
      Reference.reachabilityFence(arguments);
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuLaunchKernelEx", this + ", " + config, status);
    }
  }

  // The driver would read what is missing from wherever it expects it.
  private void checkParameters(KernelArguments arguments) {
    int[] wanted = parameterBytes;
    if (wanted == null) {
      parameterBytes = arguments.sizes();
      return;
    }
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

  private CudaKernel set(int attribute, int value) {
    module.retain(name);
    try {
      check(
          "cuFuncSetAttribute",
          context.status(() -> KernelBinding.cuFuncSetAttribute(function, attribute, value)));
    } finally {
      module.release();
    }
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
