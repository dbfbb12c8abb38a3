package io.nvrar.device;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.internal.device.host.HostDevice;

/**
 * Host memory of other code in this process, such as JavaCPP, LWJGL or an engine, as buffers for
 * groups on the CPU, which compute in it without a copy. {@link io.nvrar.cuda.CudaInterop} does the
 * same for GPUs. Thread-safe.
 */
public final class HostMemory {

  private HostMemory() {}

  /**
   * Wraps memory that other code has allocated. The buffer does not own it: closing the buffer
   * frees nothing, and the owner must keep the memory until the buffer is closed and no call uses
   * it. An address that is not memory of this process, or memory that is shorter than said, cannot
   * be recognised and may end the process.
   *
   * @param address the address of the first element, aligned to the element's size
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   * @return a buffer of the host's device
   * @throws IllegalArgumentException if the count is negative or too large, the address is 0 though
   *     there are elements, or it is not aligned
   * @throws io.nvrar.BackendUnavailableException if JNA cannot run in this process
   */
  public static DeviceBuffer wrap(long address, DataType dataType, long count) {
    return HostDevice.instance().wrap(dataType, count, address);
  }
}
