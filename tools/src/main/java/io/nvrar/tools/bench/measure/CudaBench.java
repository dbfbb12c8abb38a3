package io.nvrar.tools.bench.measure;

import io.nvrar.Device;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.CudaModule;
import io.nvrar.internal.device.cuda.DriverCall;
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
   * Loads a kernel. It stays to the end of the process.
   *
   * @param image PTX
   */
  static CudaKernel load(Device device, byte[] image, String name) {
    return CudaModule.load(device, image).kernel(name);
  }

  /** Makes a GPU's context current on the calling thread, permanently. */
  private static void enter(Device device) {
    CUcontext context = CudaInterop.context(device);
    DriverCall.check("cuCtxSetCurrent", device, () -> JCudaDriver.cuCtxSetCurrent(context));
  }
}
