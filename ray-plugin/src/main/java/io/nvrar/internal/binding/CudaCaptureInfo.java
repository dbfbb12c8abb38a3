package io.nvrar.internal.binding;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import io.nvrar.internal.loading.CudaLibraries;

/**
 * Binds cuStreamGetCaptureInfo of NVIDIA's driver, because JCuda's method of that name throws
 * {@link UnsupportedOperationException} (in 12.6). May be used only after the driver was loaded;
 * every driver that {@link CudaLibraries#open} accepts has the function.
 */
public final class CudaCaptureInfo {
  static {
    // By the name under which the driver is already loaded, so that JNA finds the same library.
    Native.register(CudaCaptureInfo.class, NativeLibrary.getInstance(CudaLibraries.DRIVER));
  }

  private CudaCaptureInfo() {}

  /**
   * Asks which capture a stream takes part in. A capture has the same id on all of its streams, and
   * no other capture of this process has that id. Allocates nothing.
   *
   * @param stream the handle of the stream, whose context must be current
   * @param status receives the {@code CUstreamCaptureStatus}, one element
   * @param id receives the capture's id if the stream captures, one element
   * @return a {@code CUresult}
   */
  public static int ask(long stream, int[] status, long[] id) {
    return cuStreamGetCaptureInfo_v2(stream, status, id, 0, 0, 0);
  }

  // The last three parameters are optional out-pointers, which are null here.
  private static native int cuStreamGetCaptureInfo_v2(
      long stream, int[] status, long[] id, long graph, long dependencies, long dependencyCount);
}
