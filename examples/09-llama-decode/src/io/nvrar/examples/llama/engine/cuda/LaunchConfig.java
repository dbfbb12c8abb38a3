package io.nvrar.examples.llama.engine.cuda;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The driver's {@code CUlaunchConfig} and its attributes, in memory. Not thread-safe. */
final class LaunchConfig {
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
  private final long address = Pointer.nativeValue(Native.getDirectBufferPointer(memory));

  /** Fills it; returns its address. */
  long of(LaunchShape shape, long stream) {
    memory.putInt(0, shape.gridX()).putInt(4, shape.gridY()).putInt(8, shape.gridZ());
    memory.putInt(12, shape.threads()).putInt(16, 1).putInt(20, 1);
    memory.putInt(SHARED_AT, shape.sharedBytes());
    memory.putLong(STREAM_AT, stream);
    memory.putLong(ATTRIBUTES_AT, address + BYTES);
    int count = 0;
    if (shape.cluster() > 1) {
      int value = attribute(count++, CLUSTER_DIMENSION);
      memory.putInt(value, shape.cluster()).putInt(value + 4, 1).putInt(value + 8, 1);
    }
    if (shape.programmatic()) {
      memory.putInt(attribute(count++, PROGRAMMATIC_STREAM_SERIALIZATION), 1);
    }
    memory.putInt(COUNT_AT, count);
    return address;
  }

  /** What {@link #of} has written. */
  ByteBuffer memory() {
    return memory;
  }

  private int attribute(int index, int id) {
    int at = BYTES + index * ATTRIBUTE_BYTES;
    memory.putInt(at, id);
    return at + VALUE_AT;
  }
}
