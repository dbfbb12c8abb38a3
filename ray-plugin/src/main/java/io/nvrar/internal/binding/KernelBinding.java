package io.nvrar.internal.binding;

import com.sun.jna.Function;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import io.nvrar.internal.loading.CudaLibraries;
import java.nio.Buffer;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Binds the functions of NVIDIA's driver for modules and kernels, because JCuda 12.6 has no
 * launches with attributes. May be used only after the driver was loaded; every driver that {@link
 * CudaLibraries#open} accepts has these functions.
 *
 * <p>Handles and addresses are longs, 0 is null. Each function returns a {@code CUresult}, and runs
 * in the calling thread's current context.
 */
public final class KernelBinding {
  /** {@code CUDA_ERROR_INVALID_VALUE}. */
  private static final int INVALID_VALUE = 1;

  private static final NativeLibrary DRIVER;

  static {
    // By the name under which the driver is already loaded, so that JNA finds the same library.
    DRIVER = NativeLibrary.getInstance(CudaLibraries.DRIVER);
    Native.register(KernelBinding.class, DRIVER);
  }

  private KernelBinding() {}

  /** Loads an image: a direct buffer, from its index 0. The module has one element. */
  public static native int cuModuleLoadData(long[] module, Buffer image);

  /** Unloads a module. */
  public static native int cuModuleUnload(long module);

  /** Finds a kernel by its name. The function has one element. */
  public static native int cuModuleGetFunction(long[] function, long module, String name);

  /** Gets a {@code CUfunction_attribute}. The value has one element. */
  public static native int cuFuncGetAttribute(int[] value, int attribute, long function);

  /** Sets a {@code CUfunction_attribute}. */
  public static native int cuFuncSetAttribute(long function, int attribute, int value);

  /** Counts the clusters that run at once. The count has one element. */
  public static native int cuOccupancyMaxActiveClusters(int[] count, long function, long config);

  /** Enqueues a launch. Allocates nothing. */
  public static native int cuLaunchKernelEx(
      long config, long function, long parameters, long extra);

  /**
   * The sizes in bytes of a kernel's parameters; null if the driver cannot say, as those older than
   * CUDA 12.4.
   *
   * @param most the number of parameters to stop at
   */
  public static int @Nullable [] parameterBytes(long function, int most) {
    Function ask;
    try {
      ask = DRIVER.getFunction("cuFuncGetParamInfo");
    } catch (UnsatisfiedLinkError e) {
      return null;
    }
    int[] sizes = new int[most];
    long[] offset = new long[1];
    long[] size = new long[1];
    for (int count = 0; count < most; count++) {
      int status = ask.invokeInt(new Object[] {function, (long) count, offset, size});
      if (status == INVALID_VALUE) {
        return Arrays.copyOf(sizes, count); // there is no further one
      }
      if (status != 0) {
        return null;
      }
      sizes[count] = (int) size[0];
    }
    return sizes;
  }
}
