package io.nvrar.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.cuda.CudaBuffer;
import io.nvrar.internal.device.cuda.CudaDevice;
import io.nvrar.internal.device.cuda.CudaStream;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.Handles;
import io.nvrar.internal.device.memory.ElementBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUpointer_attribute;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;

/**
 * Interoperation with other code that uses the GPU in this process: wraps raw pointers and stream
 * handles, as JavaCPP and DJL provide them, and JCuda's objects, and converts buffers and streams
 * to them. Every call of this library on a GPU leaves the GPU's primary context current on the
 * calling thread. Thread-safe.
 *
 * <p>A wrapper does not own what it wraps: closing the wrapper frees nothing. The owner must keep
 * the memory or the stream until the wrapper is closed and all work submitted with it has been
 * executed.
 */
public final class CudaInterop {
  private static final int MEMORYTYPE_DEVICE = 2;
  private static final long STREAM_LEGACY = 1;
  private static final long STREAM_PER_THREAD = 2;

  private CudaInterop() {}

  /**
   * Wraps device memory that other code has allocated as a buffer.
   *
   * @param device the GPU whose memory it is, from a group or {@link io.nvrar.device.Devices}
   * @param address the address of the first element, aligned to the element's size
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   * @throws IllegalArgumentException if the device is not a GPU, the address is not aligned, or the
   *     first or the last byte is not memory of this GPU
   */
  public static DeviceBuffer wrap(Device device, long address, DataType dataType, long count) {
    CudaDevice gpu = require(device);
    String name = ElementBuffer.requireSize(dataType, count);
    long sizeBytes = count * dataType.sizeBytes();
    if (address % dataType.sizeBytes() != 0) {
      throw new IllegalArgumentException(
          "the buffer %s at 0x%x is not aligned to its elements of %d bytes"
              .formatted(name, address, dataType.sizeBytes()));
    }
    if (sizeBytes > 0) {
      requireMemoryOf(gpu, name, "first", address);
      requireMemoryOf(gpu, name, "last", address + sizeBytes - 1);
    }
    return CudaBuffer.foreign(gpu, dataType, count, address);
  }

  /** {@link #wrap(Device, long, DataType, long)} for a JCuda pointer. */
  public static DeviceBuffer wrap(
      Device device, CUdeviceptr pointer, DataType dataType, long count) {
    return wrap(device, Handles.address(pointer), dataType, count);
  }

  /**
   * Wraps a stream that other code has created, by its handle ({@code CUstream}, the same as {@code
   * cudaStream_t}). It supports everything that a stream of {@link Device#createStream} does.
   *
   * <p>If the owner captures the stream with the CUDA driver's API, work submitted here becomes
   * part of the owner's graph, and only the owner can end the capture. This library does not see
   * the launches of that graph. Whoever launches it must call {@link
   * io.nvrar.CollectiveGroup#throwIfFailed} to learn whether its calls have failed, and must not
   * launch it after a group with calls in it has been closed.
   *
   * @param device the GPU that the stream belongs to
   * @param handle the handle of a live stream; this cannot be checked. The default streams, 0, 1
   *     ({@code CU_STREAM_LEGACY}) and 2 ({@code CU_STREAM_PER_THREAD}), are refused, because
   *     groups cannot communicate on them
   * @throws IllegalArgumentException if the device is not a GPU, the handle is 0, 1 or 2, or the
   *     stream belongs to another device
   */
  public static DeviceStream wrapStream(Device device, long handle) {
    CudaDevice gpu = require(device);
    refuseDefaultStream(handle);
    return wrapped(gpu, Handles.stream(handle));
  }

  /** {@link #wrapStream(Device, long)} for a JCuda stream. */
  public static DeviceStream wrapStream(Device device, CUstream stream) {
    return wrapStream(device, Handles.handle(stream));
  }

  /** A buffer's address as a JCuda pointer. The pointer does not keep the buffer alive. */
  public static CUdeviceptr pointer(DeviceBuffer buffer) {
    require(buffer.device());
    return Handles.pointer(buffer.address());
  }

  /**
   * A stream as a JCuda object, which is valid until the stream is closed.
   *
   * @throws IllegalArgumentException if the stream is not a GPU's
   * @throws IllegalStateException if the stream is closed
   */
  public static CUstream stream(DeviceStream stream) {
    return require(stream.device())
        .requireStream(stream, "CudaInterop.stream")
        .jcuda("CudaInterop.stream");
  }

  /** The primary context of a GPU. It stays valid until the end of the process. */
  public static CUcontext context(Device device) {
    return require(device).context().handle();
  }

  // The driver interprets these handles as its default streams.
  private static void refuseDefaultStream(long handle) {
    String which;
    if (handle == 0) {
      which = "the default stream (handle 0) cannot be wrapped, it waits for all others";
    } else if (handle == STREAM_LEGACY) {
      which =
          "the legacy default stream (handle 1, CU_STREAM_LEGACY) cannot be wrapped, it waits for all others";
    } else if (handle == STREAM_PER_THREAD) {
      which =
          "the default stream of a thread (handle 2, CU_STREAM_PER_THREAD) cannot be wrapped, it is another stream on every thread";
    } else {
      return;
    }
    throw new IllegalArgumentException(which + "; create one");
  }

  private static DeviceStream wrapped(CudaDevice gpu, CUstream stream) {
    CUcontext own = new CUcontext();
    gpu.context().call("cuStreamGetCtx", () -> JCudaDriver.cuStreamGetCtx(stream, own));
    if (!own.equals(gpu.context().handle())) {
      throw new IllegalArgumentException(
          "the stream 0x%x does not belong to the primary context of %s"
              .formatted(Handles.handle(stream), gpu));
    }
    gpu.streamStaging().prepare();
    return gpu.watched(CudaStream.foreign(gpu, stream));
  }

  private static CudaDevice require(Device device) {
    if (device instanceof CudaDevice gpu) {
      return gpu;
    }
    throw new IllegalArgumentException("CudaInterop needs a GPU, not " + device);
  }

  private static void requireMemoryOf(CudaDevice gpu, String name, String which, long address) {
    String what = "the %s byte of the buffer %s, 0x%x,".formatted(which, name, address);
    int type = attribute(gpu, what, CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (type != MEMORYTYPE_DEVICE) {
      throw new IllegalArgumentException(what + " is memory of the host, not of " + gpu);
    }
    int ordinal =
        attribute(gpu, what, CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (ordinal != gpu.ordinal()) {
      throw new IllegalArgumentException(what + " is memory of GPU " + ordinal + ", not of " + gpu);
    }
  }

  private static int attribute(CudaDevice gpu, String what, int attribute, long address) {
    ByteBuffer value = ByteBuffer.allocateDirect(Integer.BYTES).order(ByteOrder.nativeOrder());
    int status =
        gpu.context()
            .status(
                () ->
                    JCudaDriver.cuPointerGetAttribute(
                        Pointer.to(value), attribute, Handles.pointer(address)));
    if (status == CUresult.CUDA_ERROR_INVALID_VALUE) {
      throw new IllegalArgumentException(
          what + " was not allocated by the driver, so it is not memory of " + gpu);
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuPointerGetAttribute", gpu, status);
    }
    return value.getInt(0);
  }
}
