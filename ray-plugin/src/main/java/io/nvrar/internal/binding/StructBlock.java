package io.nvrar.internal.binding;

import io.nvrar.DeviceMemoryException;
import java.nio.ByteBuffer;
import java.util.Locale;

/**
 * A struct of {@code nvrar.h} outside the Java heap, which each call overwrites. It is made for the
 * first one and kept. Used by one thread at a time.
 */
final class StructBlock {
  private final String call;
  private final int bytes;
  private long address;
  private ByteBuffer struct = ByteBuffer.allocate(0);

  /**
   * @param call what the struct is for, in messages
   */
  StructBlock(String call, int bytes) {
    this.call = call;
    this.bytes = bytes;
  }

  /** Where the next call's arguments are written to. */
  ByteBuffer struct() {
    if (address == 0) {
      long made = NativeMemory.allocate(bytes);
      if (made == 0) {
        throw new DeviceMemoryException(
            String.format(Locale.ROOT, "the machine has no room for %s, %d bytes", call, bytes));
      }
      address = made;
      struct = NativeMemory.view(made, bytes);
    }
    return struct;
  }

  long address() {
    return address;
  }

  void free() {
    if (address != 0) {
      NativeMemory.free(address);
      address = 0;
    }
  }
}
