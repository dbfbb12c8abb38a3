package io.nvrar.cuda;

import io.nvrar.internal.binding.NativeMemory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The driver's {@code CUlaunchConfig} and its attributes, in memory that each launch overwrites.
 * Not thread-safe.
 */
final class LaunchMemory {
  static final int BYTES = 56;
  static final int ATTRIBUTE_BYTES = 72;

  private static final int MAX_ATTRIBUTES = 2;
  private static final int SHARED_AT = 24;
  private static final int STREAM_AT = 32;
  private static final int ATTRIBUTES_AT = 40;
  private static final int COUNT_AT = 48;
  private static final int VALUE_AT = 8;

  // CUlaunchAttributeID
  static final int CLUSTER_DIMENSION = 4;
  static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

  private final ByteBuffer memory =
      ByteBuffer.allocateDirect(BYTES + MAX_ATTRIBUTES * ATTRIBUTE_BYTES)
          .order(ByteOrder.nativeOrder());
  private final long address = NativeMemory.addressOf(memory);

  /**
   * Writes a launch, unless its values contradict each other; returns its address, valid as long as
   * this object is reachable.
   */
  long write(LaunchConfig config, long stream) {
    config.requireWholeClusters();
    memory.putInt(0, config.grid(0)).putInt(4, config.grid(1)).putInt(8, config.grid(2));
    memory.putInt(12, config.block(0)).putInt(16, config.block(1)).putInt(20, config.block(2));
    memory.putInt(SHARED_AT, config.dynamicSharedBytes());
    memory.putLong(STREAM_AT, stream);
    memory.putLong(ATTRIBUTES_AT, address + BYTES);
    int count = 0;
    if (config.cluster() > 1) {
      int value = attribute(count++, CLUSTER_DIMENSION);
      memory.putInt(value, config.cluster()).putInt(value + 4, 1).putInt(value + 8, 1);
    }
    if (config.programmatic()) {
      memory.putInt(attribute(count++, PROGRAMMATIC_STREAM_SERIALIZATION), 1);
    }
    memory.putInt(COUNT_AT, count);
    return address;
  }

  /** What {@link #write} has written. */
  ByteBuffer memory() {
    return memory;
  }

  private int attribute(int index, int id) {
    int at = BYTES + index * ATTRIBUTE_BYTES;
    memory.putInt(at, id);
    return at + VALUE_AT;
  }
}
