package io.nvrar.internal.device.cuda;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.host.HostDevice;
import io.nvrar.internal.device.memory.ElementBuffer;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** A GPU of this process. */
public final class CudaDevice implements Device {
  private final GpuContext context;
  private final Staging staging;
  private final StreamStaging streamStaging;
  private final @Nullable KeptMemory keptMemory;

  private final EventWatch eventWatch;

  /** All open streams, which a blocking copy waits for. */
  private final Set<CudaStream> streams = ConcurrentHashMap.newKeySet();

  private CudaDevice(
      GpuContext context,
      Staging staging,
      StreamStaging streamStaging,
      @Nullable KeptMemory keptMemory) {
    this.context = context;
    this.staging = staging;
    this.streamStaging = streamStaging;
    this.keptMemory = keptMemory;
    eventWatch = new EventWatch(context);
  }

  static CudaDevice of(GpuContext context) {
    return new CudaDevice(context, new Staging(context), new StreamStaging(context), null);
  }

  /** A GPU that several members of this process share, each with a device object of its own. */
  static CudaDevice shared(GpuContext context) {
    return new CudaDevice(
        context, new Staging(context), new StreamStaging(context), new KeptMemory());
  }

  /**
   * A device object of the same GPU for another member, whose copies wait only for that member's
   * streams.
   */
  CudaDevice forAnother() {
    return new CudaDevice(context, staging, streamStaging, keptMemory);
  }

  /** Null if the memory of closed buffers is freed by the driver. */
  @Nullable KeptMemory keptMemory() {
    return keptMemory;
  }

  public GpuContext context() {
    return context;
  }

  Staging staging() {
    return staging;
  }

  EventWatch eventWatch() {
    return eventWatch;
  }

  public StreamStaging streamStaging() {
    return streamStaging;
  }

  @Override
  public Backend backend() {
    return Backend.CUDA;
  }

  @Override
  public int ordinal() {
    return context.ordinal();
  }

  /**
   * {@inheritDoc}
   *
   * @throws io.nvrar.DeviceMemoryException if the GPU does not have that much memory
   */
  @Override
  public DeviceBuffer allocate(DataType dataType, long count) {
    return CudaBuffer.allocate(this, dataType, count);
  }

  @Override
  public DeviceBuffer allocatePinned(DataType dataType, long count) {
    String name = ElementBuffer.requireSize(dataType, count);
    long sizeBytes = count * dataType.sizeBytes();
    // JCuda wraps the memory in a Java buffer, which is limited to 2 GiB.
    if (sizeBytes > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "a pinned buffer of " + name + ", " + sizeBytes + " bytes, is larger than 2 GiB");
    }
    long address = PinnedMemory.allocate(context, sizeBytes, name);
    return HostDevice.instance()
        .adoptPinned(dataType, count, address, start -> PinnedMemory.free(context, start));
  }

  @Override
  public DeviceEvent createEvent() {
    return CudaEvent.create(this);
  }

  @Override
  public DeviceStream createStream() {
    streamStaging.prepare();
    return watched(CudaStream.create(this));
  }

  /** Makes blocking copies wait for an open stream, until {@link #forget}. */
  public CudaStream watched(CudaStream stream) {
    streams.add(stream);
    return stream;
  }

  void forget(CudaStream stream) {
    streams.remove(stream);
  }

  @Override
  public DeviceGraph capture(DeviceStream stream, Runnable work) {
    return new CudaGraph(this, requireStream(stream, "capture").record(work));
  }

  /** Waits for everything submitted to any stream, except for streams that capture. */
  void awaitStreams() {
    for (CudaStream stream : streams) {
      stream.settle();
    }
    for (CudaStream stream : streams) {
      stream.throwIfNewlyFailed();
    }
  }

  /** Casts to a stream of this device, or throws an exception that names both sides. */
  public CudaStream requireStream(DeviceStream stream, String what) {
    if (stream instanceof CudaStream cuda && cuda.device() == this) {
      return cuda;
    }
    throw new IllegalArgumentException(
        what + " on " + this + " needs a stream of " + this + ", not one of " + stream.device());
  }

  /** Casts to an event of this device, or throws an exception that names both sides. */
  public CudaEvent requireEvent(DeviceEvent event, String what) {
    if (event instanceof CudaEvent cuda && cuda.device() == this) {
      return cuda;
    }
    throw new IllegalArgumentException(
        what + " on " + this + " needs an event of " + this + ", not one of " + event.device());
  }

  /** Describes the free memory, for out-of-memory messages. */
  String freeMemory() {
    long[] free = new long[1];
    long[] total = new long[1];
    context.call("cuMemGetInfo", () -> JCudaDriver.cuMemGetInfo(free, total));
    return free[0] + " of its " + total[0] + " bytes are free";
  }

  @Override
  public String toString() {
    return context.toString();
  }
}
