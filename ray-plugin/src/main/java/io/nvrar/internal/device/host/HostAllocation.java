package io.nvrar.internal.device.host;

import io.nvrar.DeviceMemoryException;
import io.nvrar.internal.binding.NativeMemory;
import io.nvrar.internal.device.memory.HostView;
import io.nvrar.internal.device.memory.Lease;
import java.util.function.LongConsumer;

/**
 * Memory outside the Java heap. It is freed when it is closed and no copy uses it any more.
 *
 * <p>It is accessed through views of at most 1 GiB each, because a Java buffer is limited to 2 GiB.
 * A chunk's size is a multiple of every element's, so no element crosses from one view to the next.
 */
final class HostAllocation {
  /** A power of two, and a multiple of every element's size. */
  static final int CHUNK_BYTES_LOG2 = 30;

  private static final long CHUNK_BYTES = 1L << CHUNK_BYTES_LOG2;
  private static final long ALIGNMENT = 256;

  private final long address;
  private final HostView[] views;
  private final Lease lease;

  private HostAllocation(long address, long sizeBytes, Lease lease) {
    this.address = address;
    this.lease = lease;
    int chunks = (int) ((sizeBytes + CHUNK_BYTES - 1) >>> CHUNK_BYTES_LOG2);
    views = new HostView[chunks];
    for (int i = 0; i < chunks; i++) {
      long offset = (long) i << CHUNK_BYTES_LOG2;
      views[i] = new HostView(address + offset, (int) Math.min(CHUNK_BYTES, sizeBytes - offset));
    }
  }

  /**
   * Allocates.
   *
   * @param what for the message, such as {@code float32[1024]}
   */
  static HostAllocation of(long sizeBytes, String what) {
    // Additional bytes for the alignment, and so that an empty buffer has an address of its own.
    long start =
        sizeBytes > Long.MAX_VALUE - ALIGNMENT ? 0 : NativeMemory.allocate(sizeBytes + ALIGNMENT);
    if (start == 0) {
      throw new DeviceMemoryException(
          "the machine has no room for a buffer of " + what + ", " + sizeBytes + " bytes");
    }
    long aligned = (start + ALIGNMENT - 1) & -ALIGNMENT;
    return new HostAllocation(aligned, sizeBytes, new Lease(() -> NativeMemory.free(start)));
  }

  /** Takes ownership of memory, which {@code free} frees by its address. */
  static HostAllocation adopt(long address, long sizeBytes, LongConsumer free) {
    return new HostAllocation(address, sizeBytes, new Lease(() -> free.accept(address)));
  }

  long address() {
    return address;
  }

  Lease lease() {
    return lease;
  }

  HostView view(int chunk) {
    return views[chunk];
  }
}
