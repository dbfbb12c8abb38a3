package io.nvrar.internal.binding;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import io.nvrar.BackendUnavailableException;
import io.nvrar.internal.loading.JnaStart;
import io.nvrar.internal.loading.LoadAttempts;
import java.nio.ByteBuffer;

/** Memory of the C heap. A direct ByteBuffer could not be freed explicitly, nor exceed 2 GiB. */
public final class NativeMemory {

  private NativeMemory() {}

  /**
   * Allocates uninitialised memory.
   *
   * @return its address; 0 if there is not enough
   * @throws BackendUnavailableException if JNA cannot run in this process
   */
  public static long allocate(long bytes) {
    requireJna();
    return Native.malloc(bytes);
  }

  /** Frees what {@link #allocate} returned. */
  public static void free(long address) {
    Native.free(address);
  }

  /**
   * A view of memory in the native byte order; it does not keep the memory alive.
   *
   * @throws BackendUnavailableException if JNA cannot run in this process
   */
  public static ByteBuffer view(long address, int bytes) {
    requireJna();
    return new Pointer(address).getByteBuffer(0, bytes);
  }

  /** The address of a direct buffer's index 0, valid as long as the buffer is reachable. */
  public static long addressOf(ByteBuffer direct) {
    requireJna();
    return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
  }

  // Whatever uses JNA first in a process decides where it is unpacked.
  private static void requireJna() {
    JnaStart.Problem jna = JnaStart.problem();
    if (jna != null) {
      LoadAttempts attempts = new LoadAttempts();
      jna.addTo(attempts);
      throw attempts.toException("no memory outside the Java heap can be used");
    }
  }
}
