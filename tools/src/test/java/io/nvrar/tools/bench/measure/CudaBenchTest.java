package io.nvrar.tools.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.device.Devices;
import io.nvrar.tools.CudaReport;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Mode.Between;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** On the stub, which loads kernels and refuses to run them. */
@Tag("stub-cuda")
class CudaBenchTest {
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
    long function = CudaBench.load(device, ".version 7.0", "nothing");
    try (DeviceStream stream = device.createStream()) {
      CudaBench.Kernel kernel =
          CudaBench.kernel(device, stream, function, new CudaBench.Shape(1, 1, false), 1, 2, 3);
      assertThatThrownBy(kernel::launch).hasMessageContaining("cuLaunchKernelEx");
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

  @Test
  void hostIsNoGpu() {
    Device host = Devices.open(Backend.CPU, 0);
    assertThatThrownBy(() -> CudaBench.freeBytes(host))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("CudaInterop needs a GPU, not");
  }
}
