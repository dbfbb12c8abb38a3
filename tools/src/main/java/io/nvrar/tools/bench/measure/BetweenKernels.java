package io.nvrar.tools.bench.measure;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.tools.bench.setup.Mode.Between;
import io.nvrar.tools.bench.setup.Settings;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The kernels that some modes have between two calls: those of native/bench, in the jar, launched
 * as native/bench/gpu/between.cpp launches them.
 */
final class BetweenKernels implements AutoCloseable {
  private static final int SWEEPS_OF_L2 = 2;
  private static final int SWEEP_THREADS = 1024;
  private static final int SWEEP_BLOCKS_OF_A_MULTIPROCESSOR = 2;

  private static final int FILLED_AT_ONCE = 1 << 20;

  private final Device device;
  private final boolean programmatic;
  private final DeviceBuffer sink;
  private final @Nullable DeviceBuffer swept;
  private final @Nullable CudaKernel compute;
  private final @Nullable CudaKernel sweep;

  /** Takes the memory and loads the kernels that the modes need. */
  BetweenKernels(Device device, Settings settings) throws IOException {
    this(device, settings, CudaBench.l2Bytes(device));
  }

  BetweenKernels(Device device, Settings settings, long l2Bytes) throws IOException {
    boolean sweeps = needs(settings, Between.SWEEP);
    if (sweeps && l2Bytes == 0) {
      throw new CollectiveException("the driver does not say the size of this GPU's L2 cache");
    }
    this.device = device;
    programmatic = settings.programmaticLaunch();
    compute = needs(settings, Between.COMPUTE) ? load(computeName(programmatic)) : null;
    sweep = sweeps ? load("sweep") : null;
    swept = sweeps ? filled(device, SWEEPS_OF_L2 * l2Bytes) : null;
    try {
      sink = device.allocate(DataType.UINT8, 1);
    } catch (RuntimeException e) {
      closeIfAny(swept);
      throw e;
    }
  }

  private static boolean needs(Settings settings, Between which) {
    return settings.modes().stream().anyMatch(mode -> mode.between() == which);
  }

  private static String computeName(boolean programmatic) {
    return programmatic ? "compute_programmatic" : "compute";
  }

  private CudaKernel load(String name) throws IOException {
    return CudaBench.load(device, image(name + ".ptx"), "nvrar_bench_" + name);
  }

  /** Creates the submission of a kernel; the result is that of the call before it. */
  Runnable of(Between which, DeviceBuffer result, DeviceStream stream) {
    return switch (which) {
      case NOTHING -> () -> {};
      case COMPUTE -> computing(result, stream);
      case SWEEP -> sweeping(stream);
    };
  }

  private Runnable computing(DeviceBuffer result, DeviceStream stream) {
    CudaKernel kernel = compute;
    if (kernel == null) {
      throw new IllegalStateException("no mode of these settings computes");
    }
    KernelArguments arguments =
        new KernelArguments()
            .parameter()
            .pointer(result)
            .parameter()
            .pointer(sink)
            .parameter()
            .int64(CudaBench.clocksPerMicrosecond(device));
    LaunchConfig config = LaunchConfig.of(1, 1).programmatic(programmatic);
    return () -> kernel.launch(stream, config, arguments);
  }

  private Runnable sweeping(DeviceStream stream) {
    CudaKernel kernel = sweep;
    if (kernel == null || swept == null) {
      throw new IllegalStateException("no mode of these settings sweeps");
    }
    int blocks = SWEEP_BLOCKS_OF_A_MULTIPROCESSOR * CudaBench.multiprocessors(device);
    KernelArguments arguments =
        new KernelArguments()
            .parameter()
            .pointer(swept)
            .parameter()
            .int64(swept.sizeBytes())
            .parameter()
            .pointer(sink);
    LaunchConfig config = LaunchConfig.of(blocks, SWEEP_THREADS);
    return () -> kernel.launch(stream, config, arguments);
  }

  /** Written once, because memory that never was may be read without the cache. */
  private static DeviceBuffer filled(Device device, long bytes) {
    byte[] ones = new byte[FILLED_AT_ONCE];
    Arrays.fill(ones, (byte) 1);
    DeviceBuffer buffer = device.allocate(DataType.UINT8, bytes);
    try {
      for (long at = 0; at < bytes; at += FILLED_AT_ONCE) {
        int length = (int) Math.min(FILLED_AT_ONCE, bytes - at);
        buffer.slice(at, length).copyFrom(ByteBuffer.wrap(ones, 0, length));
      }
    } catch (RuntimeException e) {
      buffer.close();
      throw e;
    }
    return buffer;
  }

  private static void closeIfAny(@Nullable DeviceBuffer buffer) {
    if (buffer != null) {
      buffer.close();
    }
  }

  private static byte[] image(String name) throws IOException {
    try (InputStream image = BetweenKernels.class.getResourceAsStream(name)) {
      if (image == null) {
        throw new IOException(name + " is missing beside " + BetweenKernels.class.getName());
      }
      return image.readAllBytes();
    }
  }

  @Override
  public void close() {
    sink.close();
    closeIfAny(swept);
  }
}
