package io.nvrar.cuda;

import io.nvrar.BackendUnavailableException;
import io.nvrar.Device;
import io.nvrar.internal.binding.KernelBinding;
import io.nvrar.internal.device.cuda.CudaDevice;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.GpuContext;
import io.nvrar.internal.device.memory.Lease;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import jcuda.driver.CUresult;

/**
 * Kernels of the user's own, loaded on a GPU: a cubin, a fatbin or PTX in its primary context, in
 * which this library's streams and buffers are, too.
 *
 * <pre>{@code
 * CudaModule module = CudaModule.load(group.device(), image);
 * CudaKernel scale = module.kernel("scale");
 * KernelArguments arguments = new KernelArguments();
 * arguments.parameter().pointer(buffer).parameter().int32(count);
 * group.allReduce(buffer, ReduceOp.SUM, stream);
 * scale.launch(stream, LaunchConfig.of((count + 255) / 256, 256), arguments);
 * stream.synchronize();
 * module.close();
 * }</pre>
 *
 * <p>Thread-safe. A module that is not closed stays loaded to the end of the process, which is
 * right where a call before a launch may have failed, and the launch may still be enqueued.
 */
public final class CudaModule implements AutoCloseable {
  /** {@code CUDA_ERROR_UNSUPPORTED_PTX_VERSION}, which JCuda does not name. */
  private static final int UNSUPPORTED_PTX_VERSION = 222;

  private static final int ELF_MAGIC = 0x464c457f;
  private static final int FATBIN_MAGIC = 0xba55ed50;

  private final GpuContext context;
  private final long handle;
  private final Lease lease;

  private CudaModule(GpuContext context, long handle) {
    this.context = context;
    this.handle = handle;
    lease =
        new Lease(() -> context.call("cuModuleUnload", () -> KernelBinding.cuModuleUnload(handle)));
  }

  /**
   * Loads an image. The driver may wait for all work on the GPU, so load before a group's calls are
   * enqueued: such a call may wait for this member.
   *
   * @param device the GPU, from a group or {@link io.nvrar.device.Devices}
   * @param image a cubin or a fatbin as {@code nvcc} writes it, or PTX as text, with or without a
   *     zero byte at its end. The module keeps a copy.
   * @throws BackendUnavailableException if the image has no code for this GPU, or PTX that is newer
   *     than the driver
   * @throws IllegalArgumentException if the device is not a GPU, or the image is not one of these,
   *     or is cut short
   */
  public static CudaModule load(Device device, byte[] image) {
    if (!(device instanceof CudaDevice gpu)) {
      throw new IllegalArgumentException("CudaModule needs a GPU, not " + device);
    }
    requireWhole(image);
    // The driver reads PTX up to the first zero byte.
    ByteBuffer copy = ByteBuffer.allocateDirect(image.length + 1).put(0, image);
    long[] module = new long[1];
    GpuContext context = gpu.context();
    int status = context.status(() -> KernelBinding.cuModuleLoadData(module, copy));
    return switch (status) {
      case CUresult.CUDA_SUCCESS -> new CudaModule(context, module[0]);
      case CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION ->
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

  /** The driver is not told the length, and would read beyond the end of what is cut short. */
  private static void requireWhole(byte[] image) {
    ByteBuffer bytes = ByteBuffer.wrap(image).order(ByteOrder.LITTLE_ENDIAN);
    long magic = image.length < Integer.BYTES ? 0 : bytes.getInt(0);
    long size = image.length;
    if (magic == ELF_MAGIC) {
      // The last part of an ELF file is its section headers.
      size =
          image.length < 64
              ? 64
              : bytes.getLong(40) + Short.toUnsignedLong(bytes.getShort(58)) * bytes.getShort(60);
    } else if (magic == FATBIN_MAGIC) {
      size = image.length < 16 ? 16 : Short.toUnsignedLong(bytes.getShort(6)) + bytes.getLong(8);
    }
    if (size < 0 || size > image.length) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the image of kernels is cut short: it has %d bytes, and its header says %d",
              image.length,
              size));
    }
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
    if (name == null || name.isEmpty()) {
      throw new IllegalArgumentException("a kernel has no name");
    }
    retain(name);
    try {
      long[] function = new long[1];
      int status = context.status(() -> KernelBinding.cuModuleGetFunction(function, handle, name));
      if (status == CUresult.CUDA_ERROR_NOT_FOUND) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "a module on %s has no kernel '%s'", context, name));
      }
      if (status != CUresult.CUDA_SUCCESS) {
        throw DriverFailure.of("cuModuleGetFunction", context + " for " + name, status);
      }
      return new CudaKernel(this, context, name, function[0]);
    } finally {
      release();
    }
  }

  /** Keeps the module loaded until {@link #release}; throws if it is closed. */
  void retain(String kernel) {
    if (!lease.retain()) {
      throw new IllegalStateException(
          String.format(Locale.ROOT, "the module of %s on %s is closed", kernel, context));
    }
  }

  void release() {
    lease.release();
  }

  /**
   * Unloads the module, as soon as no method of it or of its kernels runs; a second call does
   * nothing. No kernel of it may be enqueued or running, or be launched later by a graph.
   */
  @Override
  public void close() {
    lease.close();
  }
}
