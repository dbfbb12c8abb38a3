package io.nvrar.device.host;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;

/**
 * The memory and the CPUs of this process. Buffers live outside the Java heap, aligned to 256
 * bytes; streams are immediate.
 */
public final class HostDevice implements Device {
  private static final HostDevice INSTANCE = new HostDevice();

  private HostDevice() {}

  /** The only one. */
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
   * @throws OutOfMemoryError if the machine does not give that much memory
   */
  @Override
  public DeviceBuffer allocate(DataType dataType, long count) {
    return HostBuffer.allocate(this, dataType, count);
  }

  @Override
  public HostStream createStream() {
    return new HostStream(this);
  }

  @Override
  public DeviceGraph capture(DeviceStream stream, Runnable work) {
    HostStream recorder = HostStream.require(stream, "capture");
    recorder.beginCapture();
    try {
      work.run();
    } catch (Throwable e) {
      recorder.dropCapture();
      throw e;
    }
    return new HostGraph(recorder.endCapture());
  }

  @Override
  public String toString() {
    return "host";
  }
}
