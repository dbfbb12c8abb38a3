package io.nvrar.internal.binding;

import io.nvrar.DeviceMemoryException;
import java.nio.ByteBuffer;
import java.util.Locale;

/**
 * An array of {@code nvrar_transfer} outside the Java heap, which each call overwrites. It grows to
 * the size of the largest batch and is kept. Used by one thread at a time.
 */
final class TransferBlock {
  private static final int CAPACITY_MIN = 16;

  private long address;
  private int capacity;
  private int size;
  private ByteBuffer structs = ByteBuffer.allocate(0);

  /** Empties the block and makes room for this many transfers. */
  void clear(int transfers) {
    if (transfers > capacity) {
      int wanted = Math.max(CAPACITY_MIN, Math.max(transfers, 2 * capacity));
      int bytes = Math.multiplyExact(wanted, NativeStructs.TRANSFER_BYTES);
      long grown = NativeMemory.allocate(bytes);
      if (grown == 0) {
        throw new DeviceMemoryException(
            String.format(
                Locale.ROOT,
                "the machine has no room for a batch of %d transfers, %d bytes",
                transfers,
                bytes));
      }
      free();
      address = grown;
      capacity = wanted;
      structs = NativeMemory.view(grown, bytes);
    }
    size = 0;
  }

  void add(int kind, int peer, long bufferAddress, long count, int dataType) {
    NativeStructs.putTransfer(structs, size++, kind, peer, bufferAddress, count, dataType);
  }

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
