package io.nvrar.examples.llama.engine.cuda.driver;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.Buffer;
import java.util.Locale;

/**
 * The functions of NVIDIA's driver that the engine needs besides launches, bound by JNA: JCuda
 * lacks tensor maps. May be used only after the library has found a GPU, which loads the driver;
 * every driver that it accepts (CUDA 12.0) has these functions.
 *
 * <p>Handles, device addresses and the addresses of host memory are longs, 0 is null. Each function
 * returns a status, which {@link #check} turns into an exception.
 */
public final class Driver {
  static {
    // The name under which the library has loaded it, so that JNA finds the same one.
    Native.register(Driver.class, NativeLibrary.getInstance("libcuda.so.1"));
  }

  private Driver() {}

  static native int cuDeviceGet(int[] device, int ordinal);

  static native int cuDeviceGetAttribute(int[] value, int attribute, int device);

  static native int cuMemGetInfo_v2(long[] free, long[] total);

  static native int cuStreamQuery(long stream);

  static native int cuMemsetD8Async(long target, byte value, long count, long stream);

  static native int cuTensorMapEncodeTiled(
      Buffer tensorMap,
      int dataType,
      int rank,
      long address,
      long[] dimensions,
      long[] strides,
      int[] box,
      int[] elementStrides,
      int interleave,
      int swizzle,
      int l2Promotion,
      int outOfBounds);

  private static native int cuGetErrorName(int status, long[] text);

  private static native int cuGetErrorString(int status, long[] text);

  /**
   * Throws if a status is not success.
   *
   * @param function the function's name in the driver's documentation
   * @param what what it was to do, and where
   */
  static void check(String function, Object what, int status) {
    if (status != 0) {
      throw new IllegalStateException(
          String.format(Locale.ROOT, "%s failed for %s with %s", function, what, describe(status)));
    }
  }

  /** A status by its name, number and text. */
  static String describe(int status) {
    long[] name = new long[1];
    long[] text = new long[1];
    if (cuGetErrorName(status, name) != 0 || cuGetErrorString(status, text) != 0) {
      return "the status " + status;
    }
    return String.format(Locale.ROOT, "%s (%d: %s)", string(name[0]), status, string(text[0]));
  }

  private static String string(long address) {
    return new Pointer(address).getString(0);
  }
}
