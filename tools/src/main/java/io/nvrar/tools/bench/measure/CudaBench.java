package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.nvrar.Device;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.internal.device.cuda.DriverCall;
import java.util.Arrays;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
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
    return attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
  }

  static int multiprocessors(Device device) {
    return attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }

  static long l2Bytes(Device device) {
    return attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  }

  private static int attribute(Device device, int attribute) {
    CUdevice of = new CUdevice();
    int[] value = new int[1];
    DriverCall.check("cuDeviceGet", device, () -> JCudaDriver.cuDeviceGet(of, device.ordinal()));
    DriverCall.check(
        "cuDeviceGetAttribute",
        device,
        () -> JCudaDriver.cuDeviceGetAttribute(value, attribute, of));
    return value[0];
  }

  /**
   * How a kernel is launched.
   *
   * @param programmatic with programmatic dependent launch
   */
  record Shape(int blocks, int threads, boolean programmatic) {}

  /**
   * Loads a kernel and returns its handle. It stays to the end of the process.
   *
   * @param image PTX
   */
  static long load(Device device, String image, String name) {
    enter(device);
    long[] module = new long[1];
    long[] function = new long[1];
    // The driver reads PTX up to the first zero byte.
    byte[] text = Arrays.copyOf(image.getBytes(US_ASCII), image.length() + 1);
    DriverCall.check("cuModuleLoadData", device, () -> LaunchBinding.load(module, text));
    DriverCall.check(
        "cuModuleGetFunction", device, () -> LaunchBinding.find(function, module[0], name));
    return function[0];
  }

  /**
   * A kernel, ready to be launched on a stream of the device.
   *
   * @param arguments each of 8 bytes
   */
  static Kernel kernel(
      Device device, DeviceStream stream, long function, Shape shape, long... arguments) {
    LaunchBinding.Launch launch =
        new LaunchBinding.Launch(function, shape, stream.handle(), arguments);
    return new Kernel(device, enter(device), launch);
  }

  /** Makes a GPU's context current on the calling thread, permanently. */
  private static CUcontext enter(Device device) {
    CUcontext context = CudaInterop.context(device);
    DriverCall.check("cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(context));
    return context;
  }

  /** See {@link #kernel}. */
  static final class Kernel {
    private final Device device;
    private final CUcontext context;
    private final LaunchBinding.Launch launch;

    private Kernel(Device device, CUcontext context, LaunchBinding.Launch launch) {
      this.device = device;
      this.context = context;
      this.launch = launch;
    }

    /** Submits it to its stream. */
    void launch() {
      DriverCall.check("cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(context));
      DriverCall.check("cuLaunchKernelEx", device, launch::submit);
    }
  }
}
