package io.nvrar.it.actors;

import io.nvrar.Device;
import io.nvrar.cuda.CudaInterop;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;

/** What only the driver of a GPU knows. */
final class GpuState {

  private GpuState() {}

  /** Waits for every kernel of this process on the GPU, whichever stream it is on. */
  static void synchronize(Device gpu) {
    check("cuCtxSetCurrent", JCudaDriver.cuCtxSetCurrent(CudaInterop.context(gpu)));
    check("cuCtxSynchronize", JCudaDriver.cuCtxSynchronize());
  }

  static long freeBytes(Device gpu) {
    long[] free = new long[1];
    long[] total = new long[1];
    check("cuCtxSetCurrent", JCudaDriver.cuCtxSetCurrent(CudaInterop.context(gpu)));
    check("cuMemGetInfo", JCudaDriver.cuMemGetInfo(free, total));
    return free[0];
  }

  private static void check(String call, int status) {
    if (status != CUresult.CUDA_SUCCESS) {
      throw new IllegalStateException(call + " failed with " + CUresult.stringFor(status));
    }
  }
}
