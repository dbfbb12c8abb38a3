package io.nvrar.cuda;

import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import io.nvrar.internal.binding.KernelBinding;
import io.nvrar.internal.device.cuda.CudaDevice;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.GpuContext;
import java.nio.ByteBuffer;
import java.util.Locale;
import jcuda.driver.CUresult;

/**
 * Kernels of the user's own, loaded on a GPU: a cubin, a fatbin or PTX in its primary context, in
 * which this library's streams and buffers are, too.
 *
 * <pre>{@code
 * try (CudaModule module = CudaModule.load(group.device(), image)) {
 *   CudaKernel scale = module.kernel("scale");
 *   KernelArguments arguments = new KernelArguments();
 *   arguments.parameter().pointer(buffer).parameter().int32(count);
 *   group.allReduce(buffer, ReduceOp.SUM, stream);
 *   scale.launch(stream, LaunchConfig.of((count + 255) / 256, 256), arguments);
 *   stream.synchronize();
 * }
 * }</pre>
 *
 * <p>Thread-safe, except that no kernel may be in use on another thread during {@link #close}. A
 * module that is not closed stays loaded to the end of the process.
 */
public final class CudaModule implements AutoCloseable {
  private final GpuContext context;
  private volatile long handle;

  private CudaModule(GpuContext context, long handle) {
    this.context = context;
    this.handle = handle;
  }

  /**
   * Loads an image. The driver may wait for all work on the GPU, so load before a group's calls are
   * enqueued: such a call may wait for this member.
   *
   * @param device the GPU, from a group or {@link io.nvrar.device.Devices}
   * @param image a cubin or a fatbin as {@code nvcc} writes it, or PTX as text, with or without a
   *     zero byte at its end. The module keeps a copy.
   * @throws BackendUnavailableException if the image has no code for this GPU
   * @throws IllegalArgumentException if the device is not a GPU, or the driver finds that the image
   *     is none
   */
  public static CudaModule load(Device device, byte[] image) {
    if (!(device instanceof CudaDevice gpu)) {
      throw new IllegalArgumentException("CudaModule needs a GPU, not " + device);
    }
    // The driver reads PTX up to the first zero byte.
    ByteBuffer copy = ByteBuffer.allocateDirect(image.length + 1).put(0, image);
    long[] module = new long[1];
    GpuContext context = gpu.context();
    int status = context.status(() -> KernelBinding.cuModuleLoadData(module, copy));
    return switch (status) {
      case CUresult.CUDA_SUCCESS -> new CudaModule(context, module[0]);
      case CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU ->
          throw new BackendUnavailableException(
              String.format(
                  Locale.ROOT,
                  "the image of kernels has no code for %s: cuModuleLoadData failed with %s",
                  gpu,
                  DriverFailure.describe(status)));
      case CUresult.CUDA_ERROR_INVALID_IMAGE, CUresult.CUDA_ERROR_INVALID_PTX ->
          throw new IllegalArgumentException(
              String.format(
                  Locale.ROOT,
                  "the image of kernels is no cubin, fatbin or PTX for %s: cuModuleLoadData failed with %s",
                  gpu,
                  DriverFailure.describe(status)));
      default -> throw DriverFailure.of("cuModuleLoadData", gpu, status);
    };
  }

  /**
   * A kernel of this module. The driver loads the kernel's code now and not at its first launch,
   * for which it may wait for all work on the GPU.
   *
   * @param name the name in the image: for CUDA C++ the one in the source if the kernel is {@code
   *     extern "C"}, else the mangled one
   * @throws IllegalArgumentException if the module has no such kernel
   * @throws IllegalStateException if the module is closed
   */
  public CudaKernel kernel(String name) {
    long module = requireOpen(name);
    long[] function = new long[1];
    int status = context.status(() -> KernelBinding.cuModuleGetFunction(function, module, name));
    if (status == CUresult.CUDA_ERROR_NOT_FOUND) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "a module on %s has no kernel '%s'", context, name));
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuModuleGetFunction", context + " for " + name, status);
    }
    return new CudaKernel(this, context, name, function[0]);
  }

  /** The handle; throws if the module is closed. */
  long requireOpen(String kernel) {
    long open = handle;
    if (open == 0) {
      throw new IllegalStateException(
          String.format(Locale.ROOT, "the module of %s on %s is closed", kernel, context));
    }
    return open;
  }

  /**
   * Unloads the module; a second call does nothing. No kernel of it may be running or be launched
   * later, neither directly nor by a graph.
   */
  @Override
  public void close() {
    long loaded = handle;
    handle = 0;
    if (loaded != 0) {
      context.call("cuModuleUnload", () -> KernelBinding.cuModuleUnload(loaded));
    }
  }
}
