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
 * Between this library and whoever else uses the GPU in this process: raw pointers and stream
 * handles, as JavaCPP and DJL have them, and JCuda's objects. Every call of this library on a GPU
 * leaves the GPU's primary context current on the calling thread.
 *
 * <p>What is wrapped stays its owner's: closing the wrapper frees nothing, and the owner must keep
 * it until the wrapper is closed and all work that was submitted with it has been executed.
 */
public final class CudaInterop {
  private static final int MEMORYTYPE_DEVICE = 2;
  private static final long STREAM_LEGACY = 1;
  private static final long STREAM_PER_THREAD = 2;

  private CudaInterop() {}

  /**
   * A buffer of device memory that somebody else has allocated.
   *
   * @param device the GPU whose memory it is, from a group or {@link io.nvrar.device.Devices}
   * @param address of the first element, aligned to the element's size
   * @param dataType the type of the elements
   * @param count the number of elements, 0 or more
   * @throws IllegalArgumentException if the device is no GPU, or the first or the last byte is not
   *     memory of this GPU
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

  /** The same for a pointer of JCuda. */
  public static DeviceBuffer wrap(
      Device device, CUdeviceptr pointer, DataType dataType, long count) {
    return wrap(device, Handles.address(pointer), dataType, count);
  }

  /**
   * A stream that somebody else has created, by its handle ({@code CUstream}, which is {@code
   * cudaStream_t} too). It can do all that a stream of {@link Device#createStream} can.
   *
   * <p>If its owner captures it by the driver's own calls, what is submitted here becomes part of
   * the owner's graph, and only the owner can end the capture. This library does not see when the
   * owner launches that graph. So whoever launches it asks {@link
   * io.nvrar.CollectiveGroup#throwIfFailed} whether its calls have failed, and does not launch it
   * any more once a group whose calls it holds is closed.
   *
   * @param device the GPU that it belongs to
   * @param handle of a live stream, which nobody can check; not that of a default stream: 0, 1
   *     ({@code CU_STREAM_LEGACY}) or 2 ({@code CU_STREAM_PER_THREAD}), on which no group can
   *     communicate
   * @throws IllegalArgumentException if the device is no GPU, the handle is 0, 1 or 2, or the
   *     stream is one of another device
   */
  public static DeviceStream wrapStream(Device device, long handle) {
    CudaDevice gpu = require(device);
    refuseDefaultStream(handle);
    return wrapped(gpu, Handles.stream(handle));
  }

  /** The same for a stream of JCuda. */
  public static DeviceStream wrapStream(Device device, CUstream stream) {
    return wrapStream(device, Handles.handle(stream));
  }

  /** A buffer's address as JCuda has it; it keeps nothing alive. */
  public static CUdeviceptr pointer(DeviceBuffer buffer) {
    require(buffer.device());
    return Handles.pointer(buffer.address());
  }

  /**
   * A stream as JCuda has it, to be used until the stream is closed.
   *
   * @throws IllegalStateException if it is closed
   */
  public static CUstream stream(DeviceStream stream) {
    return require(stream.device())
        .requireStream(stream, "CudaInterop.stream")
        .jcuda("CudaInterop.stream");
  }

  /** The primary context of a GPU, which stays to the end of the process. */
  public static CUcontext context(Device device) {
    return require(device).context().handle();
  }

  // The driver takes these numbers for streams of its own.
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
          what + " is no memory that the driver has allocated, so none of " + gpu);
    }
    if (status != CUresult.CUDA_SUCCESS) {
      throw DriverFailure.of("cuPointerGetAttribute", gpu, status);
    }
    return value.getInt(0);
  }
}
