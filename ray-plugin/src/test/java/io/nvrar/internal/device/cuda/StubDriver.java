package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import io.nvrar.DeviceStream;
import org.jspecify.annotations.Nullable;

/**
 * What the stub of the driver does by order, while this JVM runs; see native/test/stub_cuda/stub.h.
 */
final class StubDriver {
  private static final NativeLibrary STUB = NativeLibrary.getInstance("libcuda.so.1");
  private static final NativeLibrary PROCESS = NativeLibrary.getProcess();

  private StubDriver() {}

  /** Hears of every call of the driver, on its thread, before it does anything. */
  @FunctionalInterface
  interface Before extends Callback {
    void called(String function);
  }

  /** Whom the driver tells of every call; null for nobody. He must stay reachable meanwhile. */
  static void before(@Nullable Before listener) {
    Pointer function = listener == null ? null : CallbackReference.getFunctionPointer(listener);
    STUB.getGlobalVariableAddress("stub_cuda_before").setPointer(0, function);
  }

  /** What launches run; gets the driver's {@code CUlaunchConfig} and the arguments' addresses. */
  @FunctionalInterface
  interface Kernel extends Callback {
    int run(Pointer config, Pointer arguments);
  }

  /**
   * What launches run; null for nothing, then they are refused. It must stay reachable meanwhile.
   */
  static void kernel(@Nullable Kernel kernel) {
    Pointer function = kernel == null ? null : CallbackReference.getFunctionPointer(kernel);
    STUB.getGlobalVariableAddress("stub_cuda_kernel").setPointer(0, function);
  }

  /** Keeps a stream from going on, as a kernel that waits does. */
  static CudaContract.Held hold(DeviceStream stream) {
    long handle = stream.handle();
    hold(handle, true);
    boolean[] over = new boolean[1];
    return () -> {
      if (!over[0]) {
        over[0] = true;
        hold(handle, false);
      }
    };
  }

  private static void hold(long stream, boolean held) {
    assertThat(STUB.getFunction("stub_cuda_hold").invokeInt(new Object[] {stream, held ? 1 : 0}))
        .isZero();
  }

  /** How many things were made and not given back. */
  static long living() {
    return STUB.getFunction("stub_cuda_living").invokeLong(new Object[0]);
  }

  /** Orders failures, such as {@code cuMemcpyAsync:1:1}, or none by an empty string. */
  static void fail(String order) {
    Object[] variable = {"STUB_CUDA_FAIL", order, 1};
    assertThat(PROCESS.getFunction("setenv").invokeInt(variable)).isZero();
  }
}
