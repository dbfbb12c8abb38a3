package io.nvrar.internal.device.memory;

import io.nvrar.AllReduceFusion;
import io.nvrar.DeviceBuffer;
import io.nvrar.TopK;
import io.nvrar.internal.binding.TransferList;
import org.jspecify.annotations.Nullable;

/**
 * Keeps the memory of buffers alive while native code uses their addresses: a buffer that another
 * thread closes meanwhile is freed afterwards. Allocates nothing. Ignores buffers of other
 * implementations. Thread-safe.
 */
public final class BufferMemory {
  private BufferMemory() {}

  /**
   * Keeps the memory of both buffers until {@link #release}; they may be the same buffer.
   *
   * @throws IllegalStateException if one is closed; then neither is kept
   */
  public static void retain(@Nullable DeviceBuffer first, @Nullable DeviceBuffer second) {
    retainOne(first);
    try {
      retainOne(second);
    } catch (IllegalStateException e) {
      releaseOne(first);
      throw e;
    }
  }

  /** Undoes one {@link #retain} of the same two; see {@link Lease#release} for failures. */
  public static void release(@Nullable DeviceBuffer first, @Nullable DeviceBuffer second) {
    releaseOne(first);
    releaseOne(second);
  }

  /**
   * Keeps the memory of all buffers of a fused all-reduce until {@link #release(DeviceBuffer,
   * AllReduceFusion)}.
   *
   * @throws IllegalStateException if one is closed; then none is kept
   */
  public static void retain(DeviceBuffer input, AllReduceFusion fusion) {
    retain(input, fusion.output());
    try {
      retain(fusion.residualIn(), fusion.residualOut());
      try {
        retain(fusion.weight(), fusion.squares());
      } catch (IllegalStateException e) {
        release(fusion.residualIn(), fusion.residualOut());
        throw e;
      }
    } catch (IllegalStateException e) {
      release(input, fusion.output());
      throw e;
    }
  }

  /** Undoes one {@link #retain(DeviceBuffer, AllReduceFusion)} of the same buffers. */
  public static void release(DeviceBuffer input, AllReduceFusion fusion) {
    release(input, fusion.output());
    release(fusion.residualIn(), fusion.residualOut());
    release(fusion.weight(), fusion.squares());
  }

  /**
   * Keeps the memory of all buffers of a top-k until {@link #release(DeviceBuffer, TopK)}.
   *
   * @throws IllegalStateException if one is closed; then none is kept
   */
  public static void retain(DeviceBuffer input, TopK topK) {
    retain(input, topK.indices());
    try {
      retainOne(topK.values());
    } catch (IllegalStateException e) {
      release(input, topK.indices());
      throw e;
    }
  }

  /** Undoes one {@link #retain(DeviceBuffer, TopK)} of the same buffers. */
  public static void release(DeviceBuffer input, TopK topK) {
    release(input, topK.indices());
    releaseOne(topK.values());
  }

  /**
   * Keeps the memory of all buffers of a list until {@link #releaseAll}.
   *
   * @throws IllegalStateException if one is closed; then none is kept
   */
  public static void retainAll(TransferList transfers) {
    for (int i = 0; i < transfers.size(); i++) {
      try {
        retainOne(transfers.buffer(i));
      } catch (IllegalStateException e) {
        releaseFirst(i, transfers);
        throw e;
      }
    }
  }

  /** Undoes one {@link #retainAll} of the same list. */
  public static void releaseAll(TransferList transfers) {
    releaseFirst(transfers.size(), transfers);
  }

  private static void releaseFirst(int count, TransferList transfers) {
    for (int i = 0; i < count; i++) {
      releaseOne(transfers.buffer(i));
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
