package io.nvrar.internal.device.cuda;

import io.nvrar.BackendUnavailableException;
import java.util.HexFormat;
import jcuda.CudaException;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.CUuuid;
import jcuda.driver.JCudaDriver;

/** A GPU's primary context, and driver calls in it. */
public final class GpuContext {
  private final int ordinal;
  private final CUdevice device;
  private final CUcontext context;
  private final String uuid;
  private final DriverCall makeCurrent;

  private GpuContext(int ordinal, CUdevice device, CUcontext context, String uuid) {
    this.ordinal = ordinal;
    this.device = device;
    this.context = context;
    this.uuid = uuid;
    makeCurrent = () -> JCudaDriver.cuCtxSetCurrent(context);
  }

  /** Retains the context of a GPU that exists. */
  static GpuContext retain(int ordinal) {
    String name = name(ordinal);
    CUdevice device = new CUdevice();
    DriverCall.check("cuDeviceGet", name, () -> JCudaDriver.cuDeviceGet(device, ordinal));
    CUuuid uuid = new CUuuid();
    DriverCall.check("cuDeviceGetUuid", name, () -> JCudaDriver.cuDeviceGetUuid(uuid, device));
    CUcontext context = new CUcontext();
    int status = DriverCall.status(() -> JCudaDriver.cuDevicePrimaryCtxRetain(context, device));
    if (status != CUresult.CUDA_SUCCESS) {
      String taken =
          status == CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE
              ? "; another process has exclusive use of it (nvidia-smi -q -d COMPUTE)"
              : "";
      throw new BackendUnavailableException(
          name
              + " cannot be used: cuDevicePrimaryCtxRetain failed with "
              + DriverFailure.describe(status)
              + taken);
    }
    return new GpuContext(ordinal, device, context, HexFormat.of().formatHex(uuid.bytes));
  }

  void release() {
    DriverCall.check(
        "cuDevicePrimaryCtxRelease", this, () -> JCudaDriver.cuDevicePrimaryCtxRelease(device));
  }

  int ordinal() {
    return ordinal;
  }

  String uuid() {
    return uuid;
  }

  PciAddress pciAddress() {
    return PciAddress.of(device, toString());
  }

  public CUcontext handle() {
    return context;
  }

  /**
   * Calls the driver with this context current on the calling thread. It stays current, because the
   * next call is usually for the same GPU.
   *
   * @param function the function's name in the driver's documentation
   */
  public void call(String function, DriverCall call) {
    enter();
    DriverCall.check(function, this, call);
  }

  /** Does the same for a call with a stream. Allocates nothing. */
  void call(String function, CudaStream.StreamCall call, CUstream stream) {
    enter();
    int status;
    try {
      status = call.run(stream);
    } catch (CudaException e) {
      status = DriverFailure.statusOf(e);
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of(function, this, status);
    }
  }

  /** Does the same for a call whose status is a result; returns the status. */
  public int status(DriverCall call) {
    enter();
    return DriverCall.status(call);
  }

  /** Makes this context current on the calling thread. Allocates nothing. */
  public void enter() {
    DriverCall.check("cuCtxSetCurrent", this, makeCurrent);
  }

  /** Such as {@code GPU 0}. */
  @Override
  public String toString() {
    return name(ordinal);
  }

  private static String name(int ordinal) {
    return "GPU " + ordinal;
  }
}
