package io.nvrar.internal.device.memory;

import io.nvrar.DeviceBuffer;
import io.nvrar.internal.binding.Call;
import org.jspecify.annotations.Nullable;

/**
 * Keeps the memory of buffers alive while native code uses their addresses: a buffer that another
 * thread closes meanwhile is freed afterwards. Allocates nothing. Ignores buffers of other
 * implementations. Thread-safe.
 */
public final class BufferMemory {
  private BufferMemory() {}

  /**
   * Keeps the memory of both buffers of a copy until {@link #release(DeviceBuffer, DeviceBuffer)};
   * they may be the same buffer.
   *
   * @throws IllegalStateException if one is closed; then neither is kept
   */
  public static void retain(DeviceBuffer first, DeviceBuffer second) {
    retainOne(first);
    try {
      retainOne(second);
    } catch (IllegalStateException e) {
      releaseOne(first);
      throw e;
    }
  }

  /**
   * Undoes one {@link #retain(DeviceBuffer, DeviceBuffer)} of the same two; see {@link
   * Lease#release} for failures.
   */
  public static void release(DeviceBuffer first, DeviceBuffer second) {
    releaseOne(first);
    releaseOne(second);
  }

  /**
   * Keeps the memory of all buffers of a call until {@link #release(Call)}.
   *
   * @throws IllegalStateException if one is closed; then none is kept
   */
  public static void retain(Call call) {
    for (int i = 0; i < call.size(); i++) {
      try {
        retainOne(call.buffer(i));
      } catch (IllegalStateException e) {
        releaseFirst(i, call);
        throw e;
      }
    }
  }

  /** Undoes one {@link #retain(Call)} of the same call; see {@link Lease#release} for failures. */
  public static void release(Call call) {
    releaseFirst(call.size(), call);
  }

  private static void releaseFirst(int count, Call call) {
    for (int i = 0; i < count; i++) {
      releaseOne(call.buffer(i));
    }
  }

  private static void retainOne(@Nullable DeviceBuffer buffer) {
    if (buffer instanceof ElementBuffer ours) {
      ours.retain();
    }
  }

  private static void releaseOne(@Nullable DeviceBuffer buffer) {
    if (buffer instanceof ElementBuffer ours) {
      ours.release();
    }
  }
}
