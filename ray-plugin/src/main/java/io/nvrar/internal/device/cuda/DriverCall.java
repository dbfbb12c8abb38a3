package io.nvrar.internal.device.cuda;

import jcuda.CudaException;
import jcuda.driver.CUresult;

/**
 * A call of the driver. JCuda reports failures by a status or by an exception, depending on a
 * process-wide switch that any code may set; both are handled.
 */
@FunctionalInterface
public interface DriverCall {
  /** Makes the call; returns a {@link CUresult} status. */
  int run();

  /** Makes the call and returns the status, whichever way JCuda reported it. */
  static int status(DriverCall call) {
    try {
      return call.run();
    } catch (CudaException e) {
      return DriverFailure.statusOf(e);
    }
  }

  /**
   * Makes the call, and throws the {@link DriverFailure} of a status other than success.
   *
   * @param function the function's name in the driver's documentation
   * @param where the device, for the message
   */
  static void check(String function, Object where, DriverCall call) {
    int status = status(call);
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of(function, where, status);
    }
  }
}
