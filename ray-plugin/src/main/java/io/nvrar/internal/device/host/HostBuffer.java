package io.nvrar.internal.device.host;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.memory.ElementBuffer;
import io.nvrar.internal.device.memory.LeakReport;
import java.util.Locale;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/** A buffer in host memory, accessed in place. */
final class HostBuffer extends ElementBuffer {
  /** Linux gives a process no address beyond it, unless it asks for one there. */
  private static final long ADDRESSES_END = 1L << 48;

  private final HostAllocation allocation;

  /** Whether a GPU can access the memory directly. */
  private final boolean pinned;

  private HostBuffer(DataType dataType, long count, HostAllocation allocation, boolean pinned) {
    super(dataType, count, allocation.lease());
    this.allocation = allocation;
    this.pinned = pinned;
  }

  private HostBuffer(HostBuffer parent, long offset, long count) {
    super(parent, offset, count);
    allocation = parent.allocation;
    pinned = parent.pinned;
  }

  static HostBuffer allocate(DataType dataType, long count) {
    String name = requireSize(dataType, count);
    return watched(
        name, dataType, count, HostAllocation.of(count * dataType.sizeBytes(), name), false);
  }

  /** Takes ownership of pinned memory, which {@code free} frees by its address. */
  static HostBuffer adoptPinned(DataType dataType, long count, long address, LongConsumer free) {
    String name = requireSize(dataType, count);
    HostAllocation allocation = HostAllocation.adopt(address, count * dataType.sizeBytes(), free);
    return watched(name, dataType, count, allocation, true);
  }

  /** Memory that its owner frees. */
  static HostBuffer foreign(DataType dataType, long count, long address) {
    String name = requireSize(dataType, count);
    requireAligned(name, dataType, address);
    if (address == 0 && count > 0) {
      throw new IllegalArgumentException("the buffer " + name + " has the address 0");
    }
    long sizeBytes = count * dataType.sizeBytes();
    if (address < 0 || sizeBytes > ADDRESSES_END - address) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the buffer %s at 0x%x ends beyond the address 2^48, where no process has memory",
              name,
              address));
    }
    HostAllocation allocation = HostAllocation.adopt(address, sizeBytes, start -> {});
    return new HostBuffer(dataType, count, allocation, false);
  }

  private static HostBuffer watched(
      String name, DataType dataType, long count, HostAllocation allocation, boolean pinned) {
    HostBuffer buffer = new HostBuffer(dataType, count, allocation, pinned);
    LeakReport.watch(buffer, name, allocation.lease());
    return buffer;
  }

  boolean isPinned() {
    return pinned;
  }

  @Override
  public Device device() {
    return HostDevice.instance();
  }

  @Override
  public DeviceBuffer slice(long offset, long sliceCount) {
    return new HostBuffer(this, offset, sliceCount);
  }

  @Override
  protected long baseAddress() {
    return allocation.address();
  }

  @Override
  protected void write(@Nullable DeviceStream on, int unitBytes, long start, int n, Part part) {
    requireImmediate(on, "copyFrom");
    inPlace(unitBytes, start, n, part);
  }

  @Override
  protected void read(@Nullable DeviceStream on, int unitBytes, long start, int n, Part part) {
    requireImmediate(on, "copyTo");
    inPlace(unitBytes, start, n, part);
  }

  @Override
  protected String place() {
    return "host";
  }

  // Work submitted to a stream of the host has been executed, unless the stream records.
  private static void requireImmediate(@Nullable DeviceStream on, String what) {
    if (on != null) {
      HostStream.require(on, what).requireRunning(what);
    }
  }

  /** Splits a range of units at the chunk boundaries. */
  private void inPlace(int unitBytes, long start, int n, Part part) {
    int log2 = HostAllocation.CHUNK_BYTES_LOG2 - Integer.numberOfTrailingZeros(unitBytes);
    int unitsPerChunk = 1 << log2;
    for (int done = 0; done < n; ) {
      long unit = start + done;
      int index = (int) (unit & (unitsPerChunk - 1));
      int length = Math.min(n - done, unitsPerChunk - index);
      part.copy(allocation.view((int) (unit >>> log2)), index, done, length);
      done += length;
    }
  }
}
