package io.nvrar.internal.binding;

import io.nvrar.DeviceMemoryException;
import java.nio.ByteBuffer;
import java.util.Locale;

/**
 * Memory outside the Java heap for the structs of {@code nvrar.h} that a call passes, which each
 * call overwrites. It grows to what the largest call needs and is kept. Used by one thread at a
 * time.
 */
final class ArgumentBlock {
  private static final int BYTES_MIN = 512;

  private long address;
  private int capacity;
  private ByteBuffer structs = ByteBuffer.allocate(0);

  /** Memory for the structs of a call, at least {@code bytes}. */
  ByteBuffer room(Call call, int bytes) {
    if (bytes > capacity) {
      int wanted = Math.max(BYTES_MIN, Math.max(bytes, 2 * capacity));
      long grown = NativeMemory.allocate(wanted);
      if (grown == 0) {
        throw new DeviceMemoryException(
            String.format(
                Locale.ROOT,
                "the machine has no room for the arguments of %s, %d bytes",
                call.method(),
                wanted));
      }
      free();
      address = grown;
      structs = NativeMemory.view(grown, wanted);
      capacity = wanted; // last, so that an error in between leaves none
    }
    return structs;
  }

  /** The address of the last {@link #room}. */
  long address() {
    return address;
  }

  void free() {
    if (address != 0) {
      NativeMemory.free(address);
      address = 0;
      capacity = 0;
    }
  }
}
