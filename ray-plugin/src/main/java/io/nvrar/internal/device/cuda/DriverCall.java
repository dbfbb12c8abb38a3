package io.nvrar.internal.device.cuda;

import jcuda.CudaException;
import jcuda.driver.CUresult;

/**
 * One call of the driver. JCuda tells of a failure by a status or by an exception, as a switch of
 * the whole process says that any of its users may set: both are understood.
 */
@FunctionalInterface
public interface DriverCall {
  /** Calls; the status is that of {@link CUresult}. */
  int run();

  /** Calls and returns the status, whichever way it came. */
  static int status(DriverCall call) {
    try {
      return call.run();
    } catch (CudaException e) {
      return DriverFailure.statusOf(e);
    }
  }

  /**
   * Calls, and throws what {@link DriverFailure} makes of a status that is no success.
   *
   * @param function its name in the driver's documentation
   * @param where the device, for the message
   */
  static void check(String function, Object where, DriverCall call) {
    int status = status(call);
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of(function, where, status);
    }
  }
}
