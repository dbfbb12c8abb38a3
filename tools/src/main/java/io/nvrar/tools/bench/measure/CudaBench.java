package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.nvrar.Device;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.internal.device.cuda.DriverCall;
import java.util.Arrays;
import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;

/** GPU operations that the benchmark needs in addition to buffers, streams, events and graphs. */
public final class CudaBench {
  private CudaBench() {}

  /** The free bytes of a GPU's memory. */
  static long freeBytes(Device device) {
    enter(device);
    long[] free = new long[1];
    long[] total = new long[1];
    DriverCall.check("cuMemGetInfo", device, () -> JCudaDriver.cuMemGetInfo(free, total));
    return free[0];
  }

  /** The number of clock cycles of a GPU per microsecond at its full speed. */
  static long clocksPerMicrosecond(Device device) {
    CUdevice of = new CUdevice();
    int[] khz = new int[1];
    DriverCall.check("cuDeviceGet", device, () -> JCudaDriver.cuDeviceGet(of, device.ordinal()));
    DriverCall.check(
        "cuDeviceGetAttribute",
        device,
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
  static Kernel kernel(Device device, String image, String name, long... arguments) {
    CUcontext context = enter(device);
    CUmodule module = new CUmodule();
    CUfunction function = new CUfunction();
    // The driver reads PTX up to the first zero byte.
    byte[] text = Arrays.copyOf(image.getBytes(US_ASCII), image.length() + 1);
    DriverCall.check("cuModuleLoadData", device, () -> JCudaDriver.cuModuleLoadData(module, text));
    DriverCall.check(
        "cuModuleGetFunction",
        device,
        () -> JCudaDriver.cuModuleGetFunction(function, module, name));
    NativePointerObject[] pointers = new NativePointerObject[arguments.length];
    for (int i = 0; i < arguments.length; i++) {
      pointers[i] = Pointer.to(new long[] {arguments[i]});
    }
    return new Kernel(device, context, function, Pointer.to(pointers));
  }

  /** Makes a GPU's context current on the calling thread, permanently. */
  private static CUcontext enter(Device device) {
    CUcontext context = CudaInterop.context(device);
    DriverCall.check("cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(context));
    return context;
  }

  /** See {@link #kernel}. It stays to the end of the process. */
  static final class Kernel {
    private final Device device;
    private final CUcontext context;
    private final CUfunction function;
    private final Pointer arguments;

    private Kernel(Device device, CUcontext context, CUfunction function, Pointer arguments) {
      this.device = device;
      this.context = context;
      this.function = function;
      this.arguments = arguments;
    }

    /** Submits it to a stream of its device. */
    void launch(DeviceStream stream) {
      CUstream on = CudaInterop.stream(stream);
      DriverCall.check("cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(context));
      DriverCall.check(
          "cuLaunchKernel",
          device,
          () -> JCudaDriver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, arguments, null));
    }
  }
}
