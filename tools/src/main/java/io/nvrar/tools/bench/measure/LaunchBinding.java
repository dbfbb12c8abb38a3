package io.nvrar.tools.bench.measure;

import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import io.nvrar.internal.loading.CudaLibraries;
import io.nvrar.tools.bench.measure.CudaBench.Shape;

/**
 * Binds the launch of kernels of NVIDIA's driver with attributes, which JCuda 12.6 lacks. May be
 * used only after the driver was loaded.
 */
final class LaunchBinding {
  // CUlaunchConfig and CUlaunchAttribute, as native/bench/gpu/driver.h declares them.
  private static final int CONFIG_BYTES = 56;
  private static final int CONFIG_GRID = 0;
  private static final int CONFIG_BLOCK = 12;
  private static final int CONFIG_STREAM = 32;
  private static final int CONFIG_ATTRIBUTES = 40;
  private static final int CONFIG_ATTRIBUTE_COUNT = 48;
  private static final int ATTRIBUTE_BYTES = 72;
  private static final int ATTRIBUTE_VALUE = 8;
  private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

  static {
    // By the name under which the driver is already loaded, so that JNA finds the same library.
    Native.register(LaunchBinding.class, NativeLibrary.getInstance(CudaLibraries.DRIVER));
  }

  private LaunchBinding() {}

  /** A launch whose memory is written once, so that launching allocates nothing. */
  static final class Launch {
    private final Memory config = new Memory(CONFIG_BYTES);
    private final Memory attribute = new Memory(ATTRIBUTE_BYTES);
    private final Memory values;
    private final Memory pointers;
    private final long function;

    Launch(long function, Shape shape, long stream, long... arguments) {
      this.function = function;
      values = new Memory((long) Long.BYTES * arguments.length);
      pointers = new Memory((long) Native.POINTER_SIZE * arguments.length);
      for (int i = 0; i < arguments.length; i++) {
        values.setLong((long) Long.BYTES * i, arguments[i]);
        pointers.setPointer((long) Native.POINTER_SIZE * i, values.share((long) Long.BYTES * i));
      }
      attribute.clear();
      attribute.setInt(0, PROGRAMMATIC_STREAM_SERIALIZATION);
      attribute.setInt(ATTRIBUTE_VALUE, 1);
      config.clear();
      setDimensions(CONFIG_GRID, shape.blocks());
      setDimensions(CONFIG_BLOCK, shape.threads());
      config.setPointer(CONFIG_STREAM, new Pointer(stream));
      config.setPointer(CONFIG_ATTRIBUTES, attribute);
      config.setInt(CONFIG_ATTRIBUTE_COUNT, shape.programmatic() ? 1 : 0);
    }

    private void setDimensions(int at, int x) {
      config.setInt(at, x);
      config.setInt(at + Integer.BYTES, 1);
      config.setInt(at + 2 * Integer.BYTES, 1);
    }

    /** Returns a {@code CUresult}. */
    int submit() {
      return cuLaunchKernelEx(config, function, pointers, 0);
    }
  }

  /** Returns a {@code CUresult}; the module has one element, the image ends with a zero byte. */
  static int load(long[] module, byte[] image) {
    return cuModuleLoadData(module, image);
  }

  /** Returns a {@code CUresult}; the function has one element. */
  static int find(long[] function, long module, String name) {
    return cuModuleGetFunction(function, module, name);
  }

  private static native int cuModuleLoadData(long[] module, byte[] image);

  private static native int cuModuleGetFunction(long[] function, long module, String name);

  private static native int cuLaunchKernelEx(
      Pointer config, long function, Pointer arguments, long extra);
}
