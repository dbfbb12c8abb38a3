package io.nvrar.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;

/**
 * On the stub of native/test/stub_cuda, which is no GPU; this JVM's LD_LIBRARY_PATH leads to it.
 */
@Tag("stub-cuda")
class StubDeviceTest extends CudaContract {
  @BeforeAll
  static void theDriverIsTheStub() throws Exception {
    assertThat(CudaDevices.unavailabilityCause()).isNull();
    assertThat(Files.readAllLines(Path.of("/proc/self/maps")))
        .anyMatch(line -> line.endsWith("/stub_cuda/libcuda.so.1"));
  }
}
