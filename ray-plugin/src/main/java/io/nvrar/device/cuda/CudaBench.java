package io.nvrar.device.cuda;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.nvrar.Device;
import io.nvrar.DeviceStream;
import java.util.Arrays;
import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;

/** What the benchmark asks of GPUs besides buffers, streams, events and graphs. */
public final class CudaBench {
  private static final int NAME_BYTES = 128;

  private CudaBench() {}

  /** The name of the first GPU that this process sees. */
  public static String name() {
    byte[] name = new byte[NAME_BYTES];
    CUdevice first = new CUdevice();
    DriverCall.check("cuDeviceGet", "GPU 0", () -> JCudaDriver.cuDeviceGet(first, 0));
    DriverCall.check(
        "cuDeviceGetName", "GPU 0", () -> JCudaDriver.cuDeviceGetName(name, NAME_BYTES, first));
    return new String(name, US_ASCII).replaceAll("\0.*", "");
  }

  /** The bytes of a GPU's memory that nobody has taken. */
  public static long freeBytes(Device device) {
    long[] free = new long[1];
    long[] total = new long[1];
    gpu(device).context().call("cuMemGetInfo", () -> JCudaDriver.cuMemGetInfo(free, total));
    return free[0];
  }

  /** The clocks that a GPU counts in a microsecond at its full speed. */
  public static long clocksPerMicrosecond(Device device) {
    GpuContext context = gpu(device).context();
    CUdevice of = new CUdevice();
    int[] khz = new int[1];
    context.call("cuDeviceGet", () -> JCudaDriver.cuDeviceGet(of, device.ordinal()));
    context.call(
        "cuDeviceGetAttribute",
        () ->
            JCudaDriver.cuDeviceGetAttribute(
                khz, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, of));
    return khz[0] / 1000;
  }

  /**
   * A kernel of one thread, ready to be launched.
   *
   * @param image PTX
   * @param name of the kernel
   * @param arguments each of 8 bytes
   */
  public static Kernel kernel(Device device, String image, String name, long... arguments) {
    CudaDevice gpu = gpu(device);
    CUmodule module = new CUmodule();
    CUfunction function = new CUfunction();
    // The driver reads it to the first zero.
    byte[] text = Arrays.copyOf(image.getBytes(US_ASCII), image.length() + 1);
    gpu.context().call("cuModuleLoadData", () -> JCudaDriver.cuModuleLoadData(module, text));
    gpu.context()
        .call("cuModuleGetFunction", () -> JCudaDriver.cuModuleGetFunction(function, module, name));
    NativePointerObject[] pointers = new NativePointerObject[arguments.length];
    for (int i = 0; i < arguments.length; i++) {
      pointers[i] = Pointer.to(new long[] {arguments[i]});
    }
    return new Kernel(gpu, function, Pointer.to(pointers));
  }

  private static CudaDevice gpu(Device device) {
    if (device instanceof CudaDevice gpu) {
      return gpu;
    }
    throw new IllegalArgumentException("CudaBench needs a GPU, not " + device);
  }

  /** See {@link #kernel}. It stays to the end of the process. */
  public static final class Kernel {
    private final CudaDevice device;
    private final CUfunction function;
    private final Pointer arguments;

    private Kernel(CudaDevice device, CUfunction function, Pointer arguments) {
      this.device = device;
      this.function = function;
      this.arguments = arguments;
    }

    /** Submits it to a stream of its device. */
    public void launch(DeviceStream stream) {
      device
          .requireStream(stream, "launching a kernel")
          .submit(
              "submit",
              "cuLaunchKernel",
              on -> JCudaDriver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, arguments, null));
    }
  }
}
