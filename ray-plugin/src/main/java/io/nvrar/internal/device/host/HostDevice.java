package io.nvrar.internal.device.host;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import java.util.function.LongConsumer;

/**
 * The host as a device: the memory and the CPUs of this process. Buffers live outside the Java
 * heap, aligned to 256 bytes; streams are immediate.
 */
public final class HostDevice implements Device {
  private static final HostDevice INSTANCE = new HostDevice();

  private HostDevice() {}

  /** The only instance. */
  public static HostDevice instance() {
    return INSTANCE;
  }

  @Override
  public Backend backend() {
    return Backend.CPU;
  }

  @Override
  public int ordinal() {
    return 0;
  }

  /**
   * {@inheritDoc}
   *
   * @throws io.nvrar.DeviceMemoryException if the machine does not have that much free memory
   */
  @Override
  public DeviceBuffer allocate(DataType dataType, long count) {
    return HostBuffer.allocate(dataType, count);
  }

  /** The same as {@link #allocate}, because the host can access all of its memory. */
  @Override
  public DeviceBuffer allocatePinned(DataType dataType, long count) {
    return allocate(dataType, count);
  }

  /**
   * Takes ownership of memory that a GPU has pinned.
   *
   * @param address aligned to 256 bytes
   * @param free frees it by its address; called once, by any thread
   */
  public DeviceBuffer adoptPinned(DataType dataType, long count, long address, LongConsumer free) {
    return HostBuffer.adoptPinned(dataType, count, address, free);
  }

  /** A buffer of memory that its owner frees. */
  public DeviceBuffer wrap(DataType dataType, long count, long address) {
    return HostBuffer.foreign(dataType, count, address);
  }

  /** Whether a buffer comes from {@link #adoptPinned}, or is a slice of one. */
  public static boolean isPinned(DeviceBuffer buffer) {
    return buffer instanceof HostBuffer host && host.isPinned();
  }

  @Override
  public DeviceEvent createEvent() {
    return new HostEvent(this);
  }

  @Override
  public HostStream createStream() {
    return new HostStream(this);
  }

  @Override
  public DeviceGraph capture(DeviceStream stream, Runnable work) {
    return new HostGraph(HostStream.require(stream, "capture").record(work));
  }

  @Override
  public String toString() {
    return "host";
  }
}
