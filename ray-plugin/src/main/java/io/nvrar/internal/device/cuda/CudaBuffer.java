package io.nvrar.internal.device.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceMemoryException;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.memory.ElementBuffer;
import io.nvrar.internal.device.memory.LeakReport;
import io.nvrar.internal.device.memory.Lease;
import java.util.Locale;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** A buffer in a GPU's memory. */
public final class CudaBuffer extends ElementBuffer {
  private final CudaDevice device;
  private final long address;

  private CudaBuffer(CudaDevice device, DataType dataType, long count, long address, Lease memory) {
    super(dataType, count, memory);
    this.device = device;
    this.address = address;
  }

  private CudaBuffer(CudaBuffer parent, long offset, long count) {
    super(parent, offset, count);
    device = parent.device;
    address = parent.address;
  }

  static CudaBuffer allocate(CudaDevice device, DataType dataType, long count) {
    String name = requireSize(dataType, count);
    long sizeBytes = count * dataType.sizeBytes();
    KeptMemory kept = device.keptMemory();
    CUdeviceptr again = kept == null ? null : kept.take(sizeBytes);
    CUdeviceptr pointer = again == null ? allocate(device, name, sizeBytes) : again;
    Lease memory =
        new Lease(
            () -> {
              if (kept == null) {
                device.context().call("cuMemFree", () -> JCudaDriver.cuMemFree(pointer));
              } else {
                kept.keep(sizeBytes, pointer);
              }
            });
    CudaBuffer buffer = new CudaBuffer(device, dataType, count, Handles.address(pointer), memory);
    LeakReport.watch(buffer, name, memory);
    return buffer;
  }

  private static CUdeviceptr allocate(CudaDevice device, String name, long sizeBytes) {
    CUdeviceptr pointer = new CUdeviceptr();
    // The driver refuses to allocate 0 bytes.
    int status =
        device.context().status(() -> JCudaDriver.cuMemAlloc(pointer, Math.max(1, sizeBytes)));
    if (status == CUresult.CUDA_ERROR_OUT_OF_MEMORY) {
      throw new DeviceMemoryException(
          String.format(
              Locale.ROOT,
              "%s has no room for a buffer of %s, %d bytes; %s",
              device,
              name,
              sizeBytes,
              device.freeMemory()));
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuMemAlloc", device, status);
    }
    return pointer;
  }

  /** A buffer of memory that other code owns. */
  public static CudaBuffer foreign(CudaDevice device, DataType dataType, long count, long address) {
    return new CudaBuffer(device, dataType, count, address, new Lease(() -> {}));
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public DeviceBuffer slice(long offset, long sliceCount) {
    return new CudaBuffer(this, offset, sliceCount);
  }

  @Override
  protected long baseAddress() {
    return address;
  }

  @Override
  protected void write(@Nullable DeviceStream on, int unitBytes, long start, int n, Part part) {
    long target = address + start * unitBytes;
    if (on == null) {
      device.awaitStreams();
      device.staging().write(target, unitBytes, n, part);
    } else {
      CudaStream stream = device.requireStream(on, "copyFrom");
      device.streamStaging().write(stream, target, unitBytes, n, part);
    }
  }

  @Override
  protected void read(@Nullable DeviceStream on, int unitBytes, long start, int n, Part part) {
    long source = address + start * unitBytes;
    if (on == null) {
      device.awaitStreams();
      device.staging().read(source, unitBytes, n, part);
    } else {
      CudaStream stream = device.requireStream(on, "copyTo");
      device.streamStaging().read(stream, source, unitBytes, n, part);
    }
  }

  @Override
  protected String place() {
    return device.toString();
  }
}
