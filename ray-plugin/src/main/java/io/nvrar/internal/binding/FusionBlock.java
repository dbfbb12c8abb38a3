package io.nvrar.internal.binding;

import io.nvrar.AllReduceFusion;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceMemoryException;
import java.nio.ByteBuffer;
import java.util.Locale;

/**
 * An {@code nvrar_fused_all_reduce} outside the Java heap, which each call overwrites. It is made
 * for the first one and kept. Used by one thread at a time.
 */
final class FusionBlock {
  private long address;
  private ByteBuffer struct = ByteBuffer.allocate(0);

  /** Writes the arguments of a call, whose buffers are open. */
  void set(DeviceBuffer input, AllReduceFusion fusion, int algorithm) {
    if (address == 0) {
      long made = NativeMemory.allocate(NativeStructs.FUSION_BYTES);
      if (made == 0) {
        throw new DeviceMemoryException(
            String.format(
                Locale.ROOT,
                "the machine has no room for a fused all-reduce, %d bytes",
                NativeStructs.FUSION_BYTES));
      }
      address = made;
      struct = NativeMemory.view(made, NativeStructs.FUSION_BYTES);
    }
    NativeStructs.putFusion(struct, input, fusion, algorithm);
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
