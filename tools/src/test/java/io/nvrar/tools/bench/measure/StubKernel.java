package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.US_ASCII;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.Device;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.device.Devices;
import java.lang.ref.Reference;
import java.util.function.IntBinaryOperator;

/** A kernel of the stub of libcuda that takes as long as its launch's blocks and threads say. */
public final class StubKernel implements AutoCloseable {
  private static final Pointer HOOK =
      NativeLibrary.getInstance("libcuda.so.1").getGlobalVariableAddress("stub_cuda_kernel");
  private static final int BLOCKS_OFFSET = 0;
  private static final int THREADS_OFFSET = 12;

  /** See native/test/stub_cuda/stub.h. */
  @FunctionalInterface
  interface Kernel extends Callback {
    int run(Pointer config, Pointer arguments);
  }

  private final Kernel kernel;
  private final Device device = Devices.open(Backend.CUDA, 0);
  private final DeviceStream stream = device.createStream();
  private final DeviceEvent begin = device.createEvent();
  private final DeviceEvent end = device.createEvent();
  private final KernelArguments arguments = new KernelArguments();
  private final CudaKernel launched =
      CudaBench.load(device, ".version 7.0".getBytes(US_ASCII), "nvrar_bench_planted");

  /**
   * Until it is closed, launches of this process's stub take so long.
   *
   * @param micros of a launch of so many blocks and threads
   */
  public StubKernel(IntBinaryOperator micros) {
    kernel =
        (config, arguments) -> {
          long nanos =
              1000L
                  * micros.applyAsInt(config.getInt(BLOCKS_OFFSET), config.getInt(THREADS_OFFSET));
          for (long until = System.nanoTime() + nanos; System.nanoTime() - until < 0; ) {
            Thread.onSpinWait();
          }
          return 0;
        };
    HOOK.setPointer(0, CallbackReference.getFunctionPointer(kernel));
  }

  /** The time of one launch in microseconds, by the driver's events. */
  public double us(int blocks, int threads) {
    LaunchConfig config = LaunchConfig.of(blocks, threads);
    begin.record(stream);
    launched.launch(stream, config, arguments);
    end.record(stream);
    end.synchronize();
    return end.elapsedSince(begin).toNanos() / 1e3;
  }

  @Override
  public void close() {
    try {
      begin.close();
      end.close();
      stream.close();
    } finally {
      HOOK.setPointer(0, Pointer.NULL);
      Reference.reachabilityFence(kernel);
    }
  }
}
