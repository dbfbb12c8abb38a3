package io.nvrar.examples.llama.engine.cuda;

import io.nvrar.Device;
import io.nvrar.cuda.CudaInterop;
import jcuda.driver.CUcontext;
import jcuda.driver.JCudaDriver;

/** A GPU as launches see it: its context and its properties. Not thread-safe. */
final class Gpu {
  // CUdevice_attribute
  private static final int MULTIPROCESSORS = 16;
  private static final int CAPABILITY_MAJOR = 75;
  private static final int CAPABILITY_MINOR = 76;
  private static final int SHARED_BYTES_OPT_IN = 97;

  private final Device device;
  private final CUcontext context;
  private final LaunchConfig launchConfig = new LaunchConfig();
  private final int multiprocessors;
  private final int capabilityMajor;
  private final int capabilityMinor;
  private final int sharedBytes;

  /** For a device of a group on GPUs. */
  Gpu(Device device) {
    this.device = device;
    context = CudaInterop.context(device);
    enter();
    multiprocessors = attribute(MULTIPROCESSORS);
    capabilityMajor = attribute(CAPABILITY_MAJOR);
    capabilityMinor = attribute(CAPABILITY_MINOR);
    sharedBytes = attribute(SHARED_BYTES_OPT_IN);
  }

  Device device() {
    return device;
  }

  int multiprocessors() {
    return multiprocessors;
  }

  int capabilityMajor() {
    return capabilityMajor;
  }

  int capabilityMinor() {
    return capabilityMinor;
  }

  /** The most shared memory that a block may have, static and dynamic together. */
  int sharedBytesOfBlock() {
    return sharedBytes;
  }

  /** The bytes of memory that are free now. */
  long freeBytes() {
    long[] free = new long[1];
    enter();
    Driver.check("cuMemGetInfo", this, Driver.cuMemGetInfo_v2(free, new long[1]));
    return free[0];
  }

  /** Makes this GPU's context that of the calling thread. */
  void enter() {
    Driver.check("cuCtxSetCurrent", device, JCudaDriver.cuCtxSetCurrent(context));
  }

  LaunchConfig launchConfig() {
    return launchConfig;
  }

  private int attribute(int attribute) {
    int[] handle = new int[1];
    Driver.check("cuDeviceGet", device, Driver.cuDeviceGet(handle, device.ordinal()));
    int[] value = new int[1];
    Driver.check(
        "cuDeviceGetAttribute", device, Driver.cuDeviceGetAttribute(value, attribute, handle[0]));
    return value[0];
  }

  /** Such as {@code GPU 0}. */
  @Override
  public String toString() {
    return device.toString();
  }
}
