package io.nvrar.internal.binding;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import io.nvrar.internal.loading.CudaLibraries;

/**
 * A function of NVIDIA's driver that JCuda 12.6 has by name only: its own throws {@link
 * UnsupportedOperationException}. To be used when the driver is loaded; every driver that {@link
 * CudaLibraries#open} takes has it.
 */
public final class CudaCaptureInfo {
  static {
    // By the name under which the driver is loaded already, so that it is that one.
    Native.register(CudaCaptureInfo.class, NativeLibrary.getInstance(CudaLibraries.DRIVER));
  }

  private CudaCaptureInfo() {}

  /**
   * Asks which capture a stream takes part in; it has one number on all of its streams, and no
   * other capture of this process has it. Allocates nothing.
   *
   * @param stream its handle; the context that it belongs to is current
   * @param status where a {@code CUstreamCaptureStatus} goes, one element
   * @param id where the number goes if the stream captures, one element
   * @return a {@code CUresult}
   */
  public static int ask(long stream, int[] status, long[] id) {
    return cuStreamGetCaptureInfo_v2(stream, status, id, 0, 0, 0);
  }

  // The last three are pointers to what is not asked for.
  private static native int cuStreamGetCaptureInfo_v2(
      long stream, int[] status, long[] id, long graph, long dependencies, long dependencyCount);
}
