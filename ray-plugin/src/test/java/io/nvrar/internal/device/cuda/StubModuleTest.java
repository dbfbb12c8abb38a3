package io.nvrar.internal.device.cuda;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.jna.Pointer;
import com.sun.management.ThreadMXBean;
import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaKernel;
import io.nvrar.cuda.CudaModule;
import io.nvrar.cuda.KernelArguments;
import io.nvrar.cuda.LaunchConfig;
import io.nvrar.device.Devices;
import java.lang.management.ManagementFactory;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import org.assertj.core.api.AbstractThrowableAssert;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** On the stub of native/test/stub_cuda, which runs what a test gives it as a kernel. */
@Tag("stub-cuda")
class StubModuleTest {
  private static final byte[] IMAGE = ".version 7.0".getBytes(US_ASCII);

  /** The stub launches kernels of such names with any shared memory. */
  private static final String NAME = "nvrar_bench_of_test";

  private final Device device = CudaDevices.open(0);
  private final KernelArguments arguments = new KernelArguments();

  @Test
  void theDriverGetsTheLaunch() {
    List<List<Long>> launches = new ArrayList<>();
    StubDriver.Kernel note =
        (config, parameters) -> {
          launches.add(
              List.of(
                  (long) config.getInt(0),
                  (long) config.getInt(4),
                  (long) config.getInt(12),
                  (long) config.getInt(24),
                  Pointer.nativeValue(config.getPointer(32)),
                  (long) config.getInt(48),
                  parameters.getPointer(0).getLong(0),
                  (long) parameters.getPointer(8).getInt(0)));
          return 0;
        };
    StubDriver.kernel(note);
    try (CudaModule module = CudaModule.load(device, IMAGE);
        DeviceStream stream = device.createStream()) {
      CudaKernel kernel = module.kernel(NAME);
      arguments.parameter().int64(11).parameter().int32(12);
      LaunchConfig config =
          LaunchConfig.of(7, 96).grid(7, 8, 1).dynamicSharedBytes(1024).programmatic(true);
      kernel.launch(stream, config, arguments);
      arguments.clear().parameter().int64(13).parameter().int32(14);
      kernel.launch(stream, LaunchConfig.of(1, 32), arguments);
      assertThat(launches)
          .containsExactly(
              List.of(7L, 8L, 96L, 1024L, stream.handle(), 1L, 11L, 12L),
              List.of(1L, 1L, 32L, 0L, stream.handle(), 0L, 13L, 14L));
    } finally {
      StubDriver.kernel(null);
      Reference.reachabilityFence(note);
    }
  }

  @Test
  void aLaunchIsCapturedAndAllocatesNothing() {
    StubDriver.Kernel none = (config, parameters) -> 0;
    StubDriver.kernel(none);
    try (CudaModule module = CudaModule.load(device, IMAGE);
        DeviceStream stream = device.createStream()) {
      CudaKernel kernel = module.kernel(NAME);
      LaunchConfig config = LaunchConfig.of(4, 128);
      ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
      long[] allocated = new long[1];
      Runnable launches =
          () -> {
            for (int i = 0; i < 1000; i++) {
              arguments.clear().parameter().int64(i);
              kernel.launch(stream, config, arguments);
            }
          };
      DeviceGraph graph =
          device.capture(
              stream,
              () -> {
                launches.run();
                long before = threads.getCurrentThreadAllocatedBytes();
                launches.run();
                allocated[0] = threads.getCurrentThreadAllocatedBytes() - before;
              });
      graph.close();
      // Less than a byte for each launch: what the JVM itself may allocate meanwhile.
      assertThat(allocated[0]).isLessThan(1000);
    } finally {
      StubDriver.kernel(null);
      Reference.reachabilityFence(none);
    }
  }

  @Test
  void aRefusedLaunchSaysWhichKernelWhereAndHow() {
    try (CudaModule module = CudaModule.load(device, IMAGE);
        DeviceStream stream = device.createStream()) {
      CudaKernel kernel = module.kernel(NAME);
      // The stub refuses every launch that no test of its process runs.
      assertThatThrownBy(() -> kernel.launch(stream, LaunchConfig.of(3, 64), arguments))
          .isInstanceOf(CollectiveException.class)
          .hasMessageStartingWith(
              "cuLaunchKernelEx failed on nvrar_bench_of_test of GPU 0, 3 x 1 x 1 blocks of 64 x 1 x 1 threads with ");
    }
  }

  @Test
  void limitsOfAKernelAreRaisedAndAsked() {
    try (CudaModule module = CudaModule.load(device, IMAGE)) {
      CudaKernel kernel =
          module.kernel(NAME).maxDynamicSharedBytes(51192).allowNonPortableClusters();
      assertThat(kernel.maxActiveClusters(LaunchConfig.of(8, 32).cluster(8))).isEqualTo(16);
      assertThat(kernel.maxActiveClusters(LaunchConfig.of(16, 32).cluster(16))).isZero();
      assertThatThrownBy(() -> kernel.maxDynamicSharedBytes(1 << 30))
          .hasMessageStartingWith(
              "cuFuncSetAttribute failed on nvrar_bench_of_test of GPU 0 with ");
    }
  }

  @Test
  void anImageThatTheDriverDoesNotLoadSaysWhy() {
    failing("cuModuleLoadData:209:1", () -> CudaModule.load(device, IMAGE))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(
            "the image of kernels has no code for GPU 0: cuModuleLoadData failed with ");
    for (int status : new int[] {200, 218}) {
      failing("cuModuleLoadData:" + status + ":1", () -> CudaModule.load(device, IMAGE))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith("the image of kernels is no cubin, fatbin or PTX for GPU 0: ");
    }
    failing("cuModuleLoadData:2:1", () -> CudaModule.load(device, IMAGE))
        .isInstanceOf(CollectiveException.class)
        .hasMessageStartingWith("cuModuleLoadData failed on GPU 0 with ");
    Device host = Devices.open(Backend.CPU, 0);
    assertThatThrownBy(() -> CudaModule.load(host, IMAGE))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("CudaModule needs a GPU, not ");
  }

  @Test
  void aKernelThatIsNotThereIsNamed() {
    try (CudaModule module = CudaModule.load(device, IMAGE)) {
      failing("cuModuleGetFunction:500:1", () -> module.kernel("absent"))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("a module on GPU 0 has no kernel 'absent'");
      failing("cuModuleGetFunction:400:1", () -> module.kernel("absent"))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith("cuModuleGetFunction failed on GPU 0 for absent with ");
    }
  }

  @Test
  void aClosedModuleLaunchesNothingAndLeavesNothing() {
    try (DeviceStream stream = device.createStream()) {
      long living = StubDriver.living();
      CudaModule module = CudaModule.load(device, IMAGE);
      CudaKernel kernel = module.kernel(NAME);
      module.close();
      module.close();
      assertThat(StubDriver.living()).isEqualTo(living);
      String sentence = "the module of nvrar_bench_of_test on GPU 0 is closed";
      assertThatThrownBy(() -> kernel.launch(stream, LaunchConfig.of(1, 1), arguments))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(sentence);
      assertThatThrownBy(() -> kernel.maxDynamicSharedBytes(1)).hasMessage(sentence);
      assertThatThrownBy(() -> module.kernel(NAME)).hasMessage(sentence);
    }
  }

  /** The stub's kernels of such names have parameters of so many bytes. */
  private static final String OF_TWO = "nvrar_bench_params_8_4";

  @Test
  void argumentsThatAreNotTheKernelsAreRefusedAtEachLaunch() {
    StubDriver.Kernel none = (config, parameters) -> 0;
    StubDriver.kernel(none);
    try (CudaModule module = CudaModule.load(device, IMAGE);
        DeviceStream stream = device.createStream()) {
      CudaKernel kernel = module.kernel(OF_TWO);
      LaunchConfig config = LaunchConfig.of(1, 32);
      kernel.launch(stream, config, arguments.parameter().int64(1).parameter().int32(2));
      arguments.parameter().int64(3).parameter().int32(4); // without clear()
      assertThatThrownBy(() -> kernel.launch(stream, config, arguments))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(OF_TWO + " of GPU 0 has 2 parameters, and is given 4");
      assertThatThrownBy(() -> kernel.launch(stream, config, new KernelArguments()))
          .hasMessage(OF_TWO + " of GPU 0 has 2 parameters, and is given 0");
      arguments.clear().parameter().int64(1).parameter().int64(2);
      assertThatThrownBy(() -> kernel.launch(stream, config, arguments))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("parameter 1 of " + OF_TWO + " of GPU 0 has 4 bytes, and is given 8");
      // Of this one the stub does not tell, so the first launch does.
      CudaKernel silent = module.kernel(NAME);
      silent.launch(stream, config, arguments);
      assertThatThrownBy(() -> silent.launch(stream, config, new KernelArguments()))
          .hasMessage(NAME + " of GPU 0 has 2 parameters, and is given 0");
    } finally {
      StubDriver.kernel(null);
      Reference.reachabilityFence(none);
    }
  }

  @Test
  void aStreamThatIsClosedInALaunchLivesUntilItsEnd() {
    StubDriver.Kernel none = (config, parameters) -> 0;
    StubDriver.kernel(none);
    try {
      CudaModule module = CudaModule.load(device, IMAGE);
      CudaKernel kernel = module.kernel(NAME);
      DeviceStream stream = device.createStream();
      long living = StubDriver.living();
      StubDriver.Before closes =
          function -> {
            if (function.equals("cuLaunchKernelEx")) {
              stream.close();
              module.close();
            }
          };
      StubDriver.before(closes);
      kernel.launch(stream, LaunchConfig.of(1, 32), arguments);
      assertThat(StubDriver.living())
          .as("the stream and the module are gone")
          .isEqualTo(living - 2);
      assertThatThrownBy(() -> kernel.launch(stream, LaunchConfig.of(1, 32), arguments))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("the module of nvrar_bench_of_test on GPU 0 is closed");
    } finally {
      StubDriver.before(null);
      StubDriver.kernel(null);
      Reference.reachabilityFence(none);
    }
  }

  @Test
  void anImageThatIsCutShortIsNotGivenToTheDriver() {
    byte[] elf = new byte[64];
    elf[0] = 0x7f;
    elf[1] = 'E';
    elf[2] = 'L';
    elf[3] = 'F';
    elf[40] = 64; // where the section headers begin
    elf[58] = 64; // the size of one
    CudaModule.load(device, elf).close();
    elf[60] = 1; // their number
    assertThatThrownBy(() -> CudaModule.load(device, elf))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the image of kernels is cut short: it has 64 bytes, and its header says 128");
    byte[] fatbin = {0x50, (byte) 0xed, 0x55, (byte) 0xba, 1, 0, 16, 0, 9, 0, 0, 0, 0, 0, 0, 0};
    assertThatThrownBy(() -> CudaModule.load(device, fatbin))
        .hasMessage("the image of kernels is cut short: it has 16 bytes, and its header says 25");
  }

  @Test
  void hostMemoryThatIsNotPinnedIsNoArgument() {
    try (DeviceBuffer buffer = Devices.open(Backend.CPU, 0).allocate(DataType.FLOAT32, 4)) {
      arguments.parameter();
      assertThatThrownBy(() -> arguments.pointer(buffer))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith(
              "a kernel needs memory of a GPU or memory that allocatePinned gave, not ");
    }
  }

  @Test
  void aStreamOfAnotherGpuIsRefused() {
    try (CudaModule module = CudaModule.load(device, IMAGE);
        DeviceStream stream = CudaDevices.open(1).createStream()) {
      CudaKernel kernel = module.kernel(NAME);
      assertThatThrownBy(() -> kernel.launch(stream, LaunchConfig.of(1, 1), arguments))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("nvrar_bench_of_test of GPU 0 needs a stream of its GPU, not one of GPU 1");
    }
  }

  private static AbstractThrowableAssert<?, ? extends Throwable> failing(
      String order, ThrowingCallable work) {
    StubDriver.fail(order);
    try {
      return assertThatThrownBy(work);
    } finally {
      StubDriver.fail("");
    }
  }
}
