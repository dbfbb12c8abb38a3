package io.nvrar.internal.device.cuda;

import io.nvrar.DeviceMemoryException;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;

/** Page-locked host memory, which GPUs can access directly. */
final class PinnedMemory {
  private PinnedMemory() {}

  /**
   * Allocates memory that every GPU of this process may use.
   *
   * @param what the buffer's name in messages, such as {@code float32[1024]}
   */
  static long allocate(GpuContext context, long sizeBytes, String what) {
    Handles.HostPointer pointer = new Handles.HostPointer();
    int status =
        context.status(
            () ->
                // The driver refuses to allocate 0 bytes.
                JCudaDriver.cuMemHostAlloc(
                    pointer, Math.max(1, sizeBytes), JCudaDriver.CU_MEMHOSTALLOC_PORTABLE));
    if (status == CUresult.CUDA_ERROR_OUT_OF_MEMORY) {
      throw new DeviceMemoryException(
          "the machine has no room for a pinned buffer of " + what + ", " + sizeBytes + " bytes");
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuMemHostAlloc", context, status);
    }
    return pointer.address();
  }

  static void free(GpuContext context, long address) {
    context.call("cuMemFreeHost", () -> JCudaDriver.cuMemFreeHost(Handles.pointer(address)));
  }
}
