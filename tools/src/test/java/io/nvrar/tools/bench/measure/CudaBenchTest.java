package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.device.Devices;
import io.nvrar.tools.CudaReport;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Mode.Between;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.io.IOException;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** On the stub, which loads kernels and refuses to run them. */
@Tag("stub-cuda")
@Tag("kernels")
class CudaBenchTest {
  private static final NativeLibrary STUB = NativeLibrary.getInstance("libcuda.so.1");
  private static final int MEBIBYTE = 1 << 20;

  @Test
  void freeMemoryShrinksByWhatIsAllocated() {
    Device device = Devices.open(Backend.CUDA, 0);
    long before = CudaBench.freeBytes(device);
    try (DeviceBuffer buffer = device.allocate(DataType.UINT8, MEBIBYTE)) {
      assertThat(buffer.count()).isEqualTo(MEBIBYTE);
      assertThat(before - CudaBench.freeBytes(device)).isEqualTo(MEBIBYTE);
    }
    assertThat(CudaBench.freeBytes(device)).isEqualTo(before);
  }

  @Test
  void nameIsTheDriversWithoutWhatIsBehindIt() {
    assertThat(CudaReport.model(0)).startsWith("stub 0").doesNotContain("\0");
  }

  @Test
  void kernelThatTheDriverRefusesIsNoSilence() {
    Device device = Devices.open(Backend.CUDA, 0);
    CudaKernel kernel = CudaBench.load(device, ".version 7.0".getBytes(US_ASCII), "nothing");
    try (DeviceStream stream = device.createStream()) {
      assertThatThrownBy(() -> kernel.launch(stream, LaunchConfig.of(1, 1), new KernelArguments()))
          .hasMessageContaining("cuLaunchKernelEx");
    }
  }

  @Test
  void kernelsBetweenCallsAreInTheJarAndTakeMemoryOnlyWhereTheModesNeedIt() throws IOException {
    Device device = Devices.open(Backend.CUDA, 0);
    long before = CudaBench.freeBytes(device);
    Settings all = TestSettings.onGpus(1, 3, 0, 4);
    try (BetweenKernels kernels = new BetweenKernels(device, all);
        DeviceBuffer result = device.allocate(DataType.UINT8, 1);
        DeviceStream stream = device.createStream()) {
      assertThat(before - CudaBench.freeBytes(device))
          .isGreaterThanOrEqualTo(2 * CudaBench.l2Bytes(device));
      for (Between which : List.of(Between.COMPUTE, Between.SWEEP)) {
        // The stub refuses every launch that no test of its process runs.
        assertThatThrownBy(kernels.of(which, result, stream)::run)
            .hasMessageContaining("cuLaunchKernelEx");
      }
    }
    assertThat(CudaBench.freeBytes(device)).isEqualTo(before);
    Settings some = TestSettings.onGpus(List.of(Mode.GRAPH, Mode.GRAPH_COMPUTE), 1, 3, 0, 4);
    BetweenKernels computing = new BetweenKernels(device, some);
    assertThat(before - CudaBench.freeBytes(device)).isLessThan(CudaBench.l2Bytes(device));
    computing.close();
  }

  /** What the driver gets of a launch. */
  private record Launched(
      List<Integer> grid,
      List<Integer> block,
      int sharedBytes,
      long stream,
      int attributes,
      int attribute,
      int value,
      List<Long> arguments) {

    /** Reads a CUlaunchConfig and the pointers to three arguments. */
    static Launched of(Pointer config, Pointer arguments) {
      Pointer attribute = config.getPointer(40);
      return new Launched(
          List.of(config.getInt(0), config.getInt(4), config.getInt(8)),
          List.of(config.getInt(12), config.getInt(16), config.getInt(20)),
          config.getInt(24),
          Pointer.nativeValue(config.getPointer(32)),
          config.getInt(48),
          attribute.getInt(0),
          attribute.getInt(8),
          Stream.of(arguments.getPointerArray(0, 3)).map(one -> one.getLong(0)).toList());
    }
  }

  /** What the stub runs for a launch; see native/test/stub_cuda/stub.h. */
  @FunctionalInterface
  interface KernelOfStub extends Callback {
    int run(Pointer config, Pointer arguments);
  }

  private static List<Launched> launchesWhile(Runnable work) {
    List<Launched> launches = new ArrayList<>();
    KernelOfStub note =
        (config, arguments) -> {
          launches.add(Launched.of(config, arguments));
          return 0;
        };
    Pointer hook = STUB.getGlobalVariableAddress("stub_cuda_kernel");
    hook.setPointer(0, CallbackReference.getFunctionPointer(note));
    try {
      work.run();
    } finally {
      hook.setPointer(0, Pointer.NULL);
      Reference.reachabilityFence(note);
    }
    return launches;
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void driverGetsTheLaunchesOfNativeBenchAndOnlyTheComputingProgrammatically(boolean programmatic)
      throws IOException {
    Device device = Devices.open(Backend.CUDA, 0);
    Settings settings =
        TestSettings.withProgrammaticLaunch(TestSettings.onGpus(1, 3, 0, 4), programmatic);
    try (BetweenKernels kernels = new BetweenKernels(device, settings);
        DeviceBuffer result = device.allocate(DataType.UINT8, 1);
        DeviceStream stream = device.createStream()) {
      Runnable compute = kernels.of(Between.COMPUTE, result, stream);
      Runnable sweep = kernels.of(Between.SWEEP, result, stream);
      List<Launched> launches =
          launchesWhile(
              () -> {
                kernels.of(Between.NOTHING, result, stream).run();
                compute.run();
                sweep.run();
                compute.run();
              });
      assertThat(launches).hasSize(3);
      Launched computing = launches.get(0);
      Launched sweeping = launches.get(1);
      long sink = computing.arguments.get(1);
      assertThat(computing)
          .isEqualTo(
              new Launched(
                  List.of(1, 1, 1),
                  List.of(1, 1, 1),
                  0,
                  stream.handle(),
                  programmatic ? 1 : 0,
                  programmatic ? 6 : 0,
                  programmatic ? 1 : 0,
                  List.of(result.address(), sink, CudaBench.clocksPerMicrosecond(device))))
          .isEqualTo(launches.get(2));
      long swept = sweeping.arguments.get(0);
      assertThat(sweeping)
          .isEqualTo(
              new Launched(
                  List.of(2 * CudaBench.multiprocessors(device), 1, 1),
                  List.of(1024, 1, 1),
                  0,
                  stream.handle(),
                  0,
                  sweeping.attribute,
                  sweeping.value,
                  List.of(swept, 2 * CudaBench.l2Bytes(device), sink)));
      assertThat(List.of(sink, swept, result.address())).doesNotHaveDuplicates().doesNotContain(0L);
    }
  }

  @Test
  void cacheOfUnknownSizeIsRefusedOnlyWhereItWouldBeSwept() throws IOException {
    Device device = Devices.open(Backend.CUDA, 0);
    long before = CudaBench.freeBytes(device);
    assertThatThrownBy(() -> new BetweenKernels(device, TestSettings.onGpus(1, 3, 0, 4), 0))
        .hasMessage("the driver does not say the size of this GPU's L2 cache");
    assertThat(CudaBench.freeBytes(device)).isEqualTo(before);
    Settings some = TestSettings.onGpus(List.of(Mode.GRAPH_COMPUTE), 1, 3, 0, 4);
    new BetweenKernels(device, some, 0).close();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "cuMemAlloc_v2:2:1 | has no room for a buffer of uint8[8388608]",
        "cuMemAlloc_v2:2:2 | has no room for a buffer of uint8[1]",
        "cuMemcpyAsync:1:3 | cuMemcpyAsync",
      })
  void kernelsThatCannotBeMadeLeaveNoMemoryBehind(String order, String failure) {
    Device device = Devices.open(Backend.CUDA, 0);
    Settings all = TestSettings.onGpus(1, 3, 0, 4);
    long before = CudaBench.freeBytes(device);
    STUB.getFunction("stub_cuda_refuse").invokeVoid(new Object[] {order});
    try {
      assertThatThrownBy(() -> new BetweenKernels(device, all)).hasMessageContaining(failure);
    } finally {
      STUB.getFunction("stub_cuda_refuse").invokeVoid(new Object[] {""});
    }
    assertThat(CudaBench.freeBytes(device)).isEqualTo(before);
  }

  @Test
  void hostIsNoGpu() {
    Device host = Devices.open(Backend.CPU, 0);
    assertThatThrownBy(() -> CudaBench.freeBytes(host))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("CudaInterop needs a GPU, not");
  }
}
