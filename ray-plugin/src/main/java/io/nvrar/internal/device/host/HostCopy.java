package io.nvrar.internal.device.host;

import io.nvrar.DeviceBuffer;
import io.nvrar.internal.binding.NativeMemory;
import io.nvrar.internal.device.memory.BufferMemory;
import io.nvrar.internal.device.memory.ElementBuffer;

/** A copy between two buffers of the host, to be run once or many times. */
final class HostCopy implements Runnable {
  /** Below the 2 GiB limit of a Java buffer. */
  private static final long MAX_BYTES = 1L << 30;

  private final DeviceBuffer source;
  private final DeviceBuffer target;

  HostCopy(DeviceBuffer source, DeviceBuffer target) {
    this.source = requireHost(source);
    this.target = requireHost(target);
    ElementBuffer.requireFits(source, target);
  }

  @Override
  public void run() {
    BufferMemory.retain(source, target);
    try {
      long from = source.address();
      long to = target.address();
      long bytes = source.sizeBytes();
      for (long done = 0; done < bytes; done += MAX_BYTES) {
        int part = (int) Math.min(MAX_BYTES, bytes - done);
        NativeMemory.view(to + done, part).put(NativeMemory.view(from + done, part));
      }
    } finally {
      BufferMemory.release(source, target);
    }
  }

  private static DeviceBuffer requireHost(DeviceBuffer buffer) {
    if (buffer instanceof HostBuffer) {
      return buffer;
    }
    throw new IllegalArgumentException(
        "a copy on a stream of the host needs memory of the host, not " + buffer);
  }
}
