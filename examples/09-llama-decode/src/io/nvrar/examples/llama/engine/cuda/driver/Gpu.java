package io.nvrar.examples.llama.engine.cuda.driver;

import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import jcuda.driver.CUcontext;
import jcuda.driver.JCudaDriver;

/** A GPU as launches see it: its context and its properties. Not thread-safe. */
public final class Gpu {
  // CUdevice_attribute
  private static final int MULTIPROCESSORS = 16;
  private static final int CAPABILITY_MAJOR = 75;
  private static final int CAPABILITY_MINOR = 76;
  private static final int SHARED_BYTES_OPT_IN = 97;

  // CUDA_ERROR_NOT_READY
  private static final int NOT_READY = 600;

  private final Device device;
  private final String name;
  private final CUcontext context;
  private final int multiprocessors;
  private final int capabilityMajor;
  private final int capabilityMinor;
  private final int sharedBytes;

  /** For a device of a group on GPUs. */
  public Gpu(Device device) {
    this(device, device.toString());
  }

  /** For that of a rank: each rank may have a process, in which its GPU has the number 0. */
  public Gpu(Device device, int rank) {
    this(device, device + " of rank " + rank);
  }

  private Gpu(Device device, String name) {
    this.device = device;
    this.name = name;
    context = CudaInterop.context(device);
    enter();
    multiprocessors = attribute(MULTIPROCESSORS);
    capabilityMajor = attribute(CAPABILITY_MAJOR);
    capabilityMinor = attribute(CAPABILITY_MINOR);
    sharedBytes = attribute(SHARED_BYTES_OPT_IN);
  }

  public Device device() {
    return device;
  }

  public int multiprocessors() {
    return multiprocessors;
  }

  public int capabilityMajor() {
    return capabilityMajor;
  }

  int capabilityMinor() {
    return capabilityMinor;
  }

  /** The most shared memory that a block may have, static and dynamic together. */
  public int sharedBytesOfBlock() {
    return sharedBytes;
  }

  /** The bytes of memory that are free now. */
  public long freeBytes() {
    long[] free = new long[1];
    enter();
    Driver.check("cuMemGetInfo", this, Driver.cuMemGetInfo_v2(free, new long[1]));
    return free[0];
  }

  /** Fills a buffer with zeros in the order of a stream. */
  public void zero(DeviceStream stream, DeviceBuffer buffer) {
    if (buffer.sizeBytes() > 0) {
      enter();
      Driver.check(
          "cuMemsetD8Async",
          this,
          Driver.cuMemsetD8Async(buffer.address(), (byte) 0, buffer.sizeBytes(), stream.handle()));
    }
  }

  /**
   * Whether all that was enqueued on a stream has been executed.
   *
   * @throws IllegalStateException if some of it has failed
   */
  public boolean isDone(DeviceStream stream) {
    enter();
    int status = Driver.cuStreamQuery(stream.handle());
    if (status != NOT_READY) {
      Driver.check("cuStreamQuery", this, status);
    }
    return status != NOT_READY;
  }

  /** Makes this GPU's context that of the calling thread. */
  public void enter() {
    Driver.check("cuCtxSetCurrent", this, JCudaDriver.cuCtxSetCurrent(context));
  }

  /** The compute capability of a GPU of this process, which need not be open. */
  public static int capabilityMajor(int ordinal) {
    return attribute(ordinal, CAPABILITY_MAJOR);
  }

  private int attribute(int attribute) {
    return attribute(device.ordinal(), attribute);
  }

  private static int attribute(int ordinal, int attribute) {
    int[] handle = new int[1];
    Driver.check("cuDeviceGet", "GPU " + ordinal, Driver.cuDeviceGet(handle, ordinal));
    int[] value = new int[1];
    Driver.check(
        "cuDeviceGetAttribute",
        "GPU " + ordinal,
        Driver.cuDeviceGetAttribute(value, attribute, handle[0]));
    return value[0];
  }

  /** Such as {@code GPU 0 of rank 3}. */
  @Override
  public String toString() {
    return name;
  }
}
