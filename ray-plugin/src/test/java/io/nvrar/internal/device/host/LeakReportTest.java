package io.nvrar.internal.device.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.CapturedLog;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class LeakReportTest {
  private static final String DEBUG_PROPERTY = "nvrar.debug.leaks";

  @RegisterExtension private final CapturedLog log = new CapturedLog();

  @AfterEach
  void keepNoStacks() {
    System.clearProperty(DEBUG_PROPERTY);
  }

  @Test
  void aDroppedBufferIsReportedAndTheSliceThatIsUsedKeepsItsParentFromIt() {
    DeviceBuffer slice = HostDevice.instance().allocate(DataType.FLOAT32, 4321).slice(0, 1);
    HostDevice.instance().allocate(DataType.FLOAT32, 1234);
    awaitLog("float32[1234] was dropped without close(); -Dnvrar.debug.leaks=true");
    assertThat(log.text()).doesNotContain("4321").doesNotContain("LeakReportTest");
    slice.copyFrom(new float[] {1});
  }

  @Test
  void theStackThatAllocatedIsLoggedOnlyUnderTheDebugProperty() {
    System.setProperty(DEBUG_PROPERTY, "true");
    HostDevice.instance().allocate(DataType.BFLOAT16, 77);
    awaitLog("bfloat16[77] was dropped without close()");
    awaitLog("LeakReportTest.theStackThatAllocatedIsLoggedOnlyUnderTheDebugProperty");
  }

  @Test
  void aClosedBufferIsNoLeak() {
    HostDevice.instance().allocate(DataType.FLOAT32, 1111).close();
    HostDevice.instance().allocate(DataType.FLOAT32, 2222);
    awaitLog("float32[2222]");
    assertThat(log.text()).doesNotContain("1111");
  }

  private void awaitLog(String part) {
    await()
        .atMost(Duration.ofSeconds(30))
        .untilAsserted(
            () -> {
              System.gc();
              assertThat(log.text()).contains(part);
            });
  }
}
