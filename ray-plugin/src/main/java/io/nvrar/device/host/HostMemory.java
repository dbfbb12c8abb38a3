package io.nvrar.device.host;

import io.nvrar.DeviceBuffer;

/**
 * Keeps the memory of host buffers while native code works on their addresses, so that a buffer
 * that another thread closes meanwhile is freed after it. Allocates nothing; buffers of other
 * devices are left alone. Safe for use by many threads.
 */
public final class HostMemory {
  private HostMemory() {}

  /**
   * Keeps the memory of both until {@link #release}; they may be one.
   *
   * @throws IllegalStateException if one is closed; then neither is kept
   */
  public static void retain(DeviceBuffer first, DeviceBuffer second) {
    if (first instanceof HostBuffer host) {
      host.retain();
    }
    if (second instanceof HostBuffer host) {
      try {
        host.retain();
      } catch (IllegalStateException e) {
        releaseOne(first);
        throw e;
      }
    }
  }

  /** Undoes one {@link #retain} of the same two. */
  public static void release(DeviceBuffer first, DeviceBuffer second) {
    releaseOne(first);
    releaseOne(second);
  }

  private static void releaseOne(DeviceBuffer buffer) {
    if (buffer instanceof HostBuffer host) {
      host.release();
    }
  }
}
