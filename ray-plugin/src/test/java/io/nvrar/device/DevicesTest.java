package io.nvrar.device;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.internal.device.host.HostDevice;
import io.nvrar.support.CudaJvm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DevicesTest {

  @Test
  void theHostIsOneDeviceWhateverItsOrdinal() {
    assertThat(Devices.resolve(Backend.CPU)).isEqualTo(Backend.CPU);
    assertThat(Devices.unavailabilityCause(Backend.CPU)).isNull();
    assertThat(Devices.open(Backend.CPU, 3)).isSameAs(HostDevice.instance());
  }

  @Test
  void withoutAGpuAutoIsTheHostAndCudaSaysWhyInsteadOfFallingBack(@TempDir Path scratch)
      throws Exception {
    String said =
        CudaJvm.onStub(scratch, Map.of("STUB_CUDA_DEVICES", "0"), AutoProcess.class).end(0);
    assertThat(said).startsWith("AUTO is CPU on host\nCUDA is CUDA: ").hasLineCount(2);
  }

  @Test
  void whoAsksForTheCpuLoadsNothingOfCuda(@TempDir Path scratch) throws Exception {
    assertThat(CudaJvm.onStub(scratch, Map.of(), CpuProcess.class).end(0))
        .isEqualToIgnoringNewLines("host");
  }

  /** Opens the host and says which libraries of CUDA that has loaded. */
  static final class CpuProcess {
    private CpuProcess() {}

    public static void main(String[] args) throws Exception {
      System.out.println(Devices.open(Backend.CPU, 0));
      Files.readAllLines(Path.of("/proc/self/maps")).stream()
          .filter(line -> line.contains("libcuda") || line.contains("JCuda"))
          .forEach(System.out::println);
    }
  }

  /** Says what AUTO and CUDA lead to. */
  static final class AutoProcess {
    private AutoProcess() {}

    public static void main(String[] args) {
      System.out.printf(
          "AUTO is %s on %s%n", Devices.resolve(Backend.AUTO), Devices.open(Backend.AUTO, 0));
      try {
        System.out.println("CUDA opened " + Devices.open(Backend.CUDA, 0));
      } catch (BackendUnavailableException e) {
        BackendUnavailableException cause = Devices.unavailabilityCause(Backend.CUDA);
        if (cause != null && Objects.equals(cause.getMessage(), e.getMessage())) {
          System.out.printf("CUDA is %s: %s%n", Devices.resolve(Backend.CUDA), e.getMessage());
        }
      }
    }
  }
}
