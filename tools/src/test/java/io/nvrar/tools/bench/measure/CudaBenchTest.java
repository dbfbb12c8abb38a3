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
    CudaBench.Kernel kernel = CudaBench.kernel(device, ".version 7.0", "nothing", 1, 2, 3);
    try (DeviceStream stream = device.createStream()) {
      assertThatThrownBy(() -> kernel.launch(stream)).hasMessageContaining("cuLaunchKernel");
    }
  }

  @Test
  void hostIsNoGpu() {
    Device host = Devices.open(Backend.CPU, 0);
    assertThatThrownBy(() -> CudaBench.freeBytes(host))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("CudaInterop needs a GPU, not");
  }
}
