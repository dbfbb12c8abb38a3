package io.nvrar.cuda;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.cuda.CudaBuffer;
import io.nvrar.internal.device.cuda.CudaDevice;
import io.nvrar.internal.device.cuda.CudaEvent;
import io.nvrar.internal.device.cuda.CudaStream;
import io.nvrar.internal.device.cuda.DriverFailure;
import io.nvrar.internal.device.cuda.Handles;
import io.nvrar.internal.device.memory.ElementBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUevent;
import jcuda.driver.CUpointer_attribute;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;

/**
 * Interoperation with other code that uses the GPU in this process, such as DJL, JavaCPP, LWJGL or
 * JCuda: wraps its memory, streams and events, given as raw addresses and handles or as JCuda's
 * objects, and hands out those of this library. Thread-safe. Every call of this library on a GPU
 * leaves the GPU's primary context, which CUDA's runtime API uses too, current on the calling
 * thread.
 *
 * <p><b>Ownership.</b> A wrapper does not own what it wraps: closing the wrapper frees nothing. The
 * owner must keep the memory, the stream or the event until the wrapper is closed and all work
 * submitted with it has been executed. What is handed out stays this library's: other code must
 * neither destroy it nor use it longer than the method says.
 *
 * <p><b>Order.</b> The device orders only what one stream holds, and what waits for an event. The
 * streams of this library are created as non-blocking ones: they and the default streams do not
 * wait for each other. Work of another library on its own stream, default or not, is ordered before
 * ours by an event that is recorded there and that our stream waits for, and after ours the other
 * way round:
 *
 * <pre>{@code
 * try (DeviceStream theirs = CudaInterop.wrapStream(device, handle);
 *     DeviceEvent event = device.createEvent()) {
 *   event.record(theirs);
 *   ours.waitFor(event); // what is submitted to ours from here on sees their results
 *   group.allReduce(buffer, ReduceOp.SUM, ours);
 *   event.record(ours);
 *   theirs.waitFor(event); // and what they submit from here on sees the sums
 * }
 * }</pre>
 *
 * <p>No call waits on the host for that. Where other code gives events and not its stream, {@link
 * #wrapEvent} makes them events to wait for, and {@link DeviceEvent#handle} is for its {@code
 * cuStreamWaitEvent}.
 *
 * <p><b>Errors.</b> A handle or an address that can be seen to be wrong is refused by an {@link
 * IllegalArgumentException}, before anything is done. CUDA cannot tell a destroyed stream or event
 * from a live one.
 */
public final class CudaInterop {
  private static final int MEMORYTYPE_DEVICE = 2;

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
    ElementBuffer.requireAligned(name, dataType, address);
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
   * <p>The <b>default streams</b> can be wrapped to order work against theirs: events are recorded
   * and waited for, copies made and graphs launched there. A group's call, or a graph with one, and
   * a capture are refused with an {@link IllegalArgumentException}. They are
   *
   * <ul>
   *   <li>the legacy default stream: handle 1 ({@code CU_STREAM_LEGACY}), and 0, which is taken for
   *       1 whatever the other code was compiled for. It is one for all threads. It and every
   *       stream that was created without {@code CU_STREAM_NON_BLOCKING} wait for each other, so it
   *       cannot be used while one of these captures: an {@link IllegalStateException} says so, and
   *       the capture goes on.
   *   <li>the per-thread default stream: handle 2 ({@code CU_STREAM_PER_THREAD}), which is another
   *       stream on every thread. The wrapper is of the calling thread's. It can be closed by any
   *       thread; its other methods throw an {@link IllegalStateException} on other threads. It and
   *       the legacy default stream wait for each other.
   * </ul>
   *
   * <p>While one of them is wrapped, a blocking copy of a {@link DeviceBuffer} also waits for the
   * work of all threads on the default streams and on those that wait for them.
   *
   * @param device the GPU that the stream belongs to
   * @param handle the handle of a live stream, which cannot be checked, or that of a default stream
   * @throws IllegalArgumentException if the device is not a GPU, the stream belongs to another
   *     device, or the handle is 2 on a virtual thread
   */
  public static DeviceStream wrapStream(Device device, long handle) {
    CudaDevice gpu = require(device);
    CudaStream stream = CudaStream.foreign(gpu, handle);
    CUcontext own = new CUcontext();
    gpu.context()
        .call("cuStreamGetCtx", () -> JCudaDriver.cuStreamGetCtx(stream.jcuda("wrapStream"), own));
    if (!own.equals(gpu.context().handle())) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the stream 0x%x does not belong to the primary context of %s",
              handle,
              gpu));
    }
    gpu.streamStaging().prepare();
    return gpu.watched(stream);
  }

  /** {@link #wrapStream(Device, long)} for a JCuda stream. */
  public static DeviceStream wrapStream(Device device, CUstream stream) {
    return wrapStream(device, Handles.handle(stream));
  }

  /**
   * Wraps an event that other code has created, by its handle ({@code CUevent}, the same as {@code
   * cudaEvent_t}), to wait for it: by {@link DeviceStream#waitFor}, {@link
   * DeviceEvent#synchronize}, {@link DeviceEvent#whenDone} or {@link DeviceEvent#isDone}. It stands
   * for the place where its owner has recorded it last when the method is called, and has happened
   * if it never was. Its owner must neither record it again nor destroy it before a stage of it has
   * completed, which may be a millisecond after the event has happened.
   *
   * <p>Only its owner records it: {@link DeviceEvent#record} throws an {@link
   * UnsupportedOperationException}. {@link DeviceEvent#elapsedSince} fails with an {@link
   * IllegalStateException} if the event was created without timing, as PyTorch's are. Waiting
   * throws no failures of groups, since nothing is known of the stream.
   *
   * @param device the GPU whose streams are to wait; the event may be another GPU's of this process
   * @param handle the handle of a live event, which cannot be checked
   * @throws IllegalArgumentException if the device is not a GPU, or the handle is 0
   */
  public static DeviceEvent wrapEvent(Device device, long handle) {
    CudaDevice gpu = require(device);
    if (handle == 0) {
      throw new IllegalArgumentException("the handle of the event is 0, which is no event");
    }
    return CudaEvent.foreign(gpu, Handles.event(handle));
  }

  /** {@link #wrapEvent(Device, long)} for a JCuda event. */
  public static DeviceEvent wrapEvent(Device device, CUevent event) {
    return wrapEvent(device, Handles.handle(event));
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

  /**
   * An event as a JCuda object, which is valid as long as its {@link DeviceEvent#handle}.
   *
   * @throws IllegalArgumentException if the event is not a GPU's
   * @throws IllegalStateException if the event is closed
   */
  public static CUevent event(DeviceEvent event) {
    return require(event.device())
        .requireEvent(event, "CudaInterop.event")
        .jcuda("CudaInterop.event");
  }

  /** The primary context of a GPU. It stays valid until the end of the process. */
  public static CUcontext context(Device device) {
    return require(device).context().handle();
  }

  private static CudaDevice require(Device device) {
    if (device instanceof CudaDevice gpu) {
      return gpu;
    }
    throw new IllegalArgumentException("CudaInterop needs a GPU, not " + device);
  }

  private static void requireMemoryOf(CudaDevice gpu, String name, String which, long address) {
    String what =
        String.format(Locale.ROOT, "the %s byte of the buffer %s, 0x%x,", which, name, address);
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
