package io.nvrar.examples.llama.engine.cuda.driver;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import java.util.ArrayDeque;
import java.util.Deque;

/** What is freed together, the last first. */
public final class Resources implements AutoCloseable {

  /** Something that is freed without an exception of its own. */
  public interface Resource extends AutoCloseable {
    @Override
    void close();
  }

  private final Deque<Resource> owned = new ArrayDeque<>();

  /** Takes the responsibility for something. */
  public <T extends Resource> T own(T resource) {
    owned.push(resource);
    return resource;
  }

  /** Allocates uninitialised memory of a device. */
  public DeviceBuffer allocate(Device device, DataType type, long count) {
    DeviceBuffer buffer = device.allocate(type, count);
    owned.push(buffer::close);
    return buffer;
  }

  /** Allocates memory of the host that the device can write to. */
  public DeviceBuffer allocatePinned(Device device, DataType type, long count) {
    DeviceBuffer buffer = device.allocatePinned(type, count);
    owned.push(buffer::close);
    return buffer;
  }

  /** Allocates memory of a device, which is filled with zeros in the order of a stream. */
  public DeviceBuffer zeroed(Gpu gpu, DeviceStream stream, DataType type, long count) {
    DeviceBuffer buffer = allocate(gpu.device(), type, count);
    gpu.zero(stream, buffer);
    return buffer;
  }

  /** Frees all after a failure, to which failures of that are added. */
  public void closeAfter(Throwable failure) {
    try {
      close();
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
  }

  /** Frees all; throws the first failure after that. Idempotent. */
  @Override
  public void close() {
    RuntimeException first = null;
    while (!owned.isEmpty()) {
      try {
        owned.pop().close();
      } catch (RuntimeException e) {
        if (first == null) {
          first = e;
        } else {
          first.addSuppressed(e);
        }
      }
    }
    if (first != null) {
      throw first;
    }
  }
}
