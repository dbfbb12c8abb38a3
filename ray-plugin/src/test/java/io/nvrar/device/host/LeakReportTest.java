package io.nvrar.device.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Reads the log where slf4j-simple writes it. */
class LeakReportTest {
  private static final String DEBUG_PROPERTY = "nvrar.debug.leaks";

  private final ByteArrayOutputStream log = new ByteArrayOutputStream();
  private final PrintStream standardError = System.err;

  @BeforeEach
  void readTheLog() {
    System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
  }

  @AfterEach
  void stopReadingTheLog() {
    System.setErr(standardError);
    System.clearProperty(DEBUG_PROPERTY);
  }

  @Test
  void aDroppedBufferIsReportedAndTheSliceThatIsUsedKeepsItsParentFromIt() {
    DeviceBuffer slice = HostDevice.instance().allocate(DataType.FLOAT32, 4321).slice(0, 1);
    HostDevice.instance().allocate(DataType.FLOAT32, 1234);
    awaitLog("float32[1234] was dropped without close(); -Dnvrar.debug.leaks=true");
    assertThat(text()).doesNotContain("4321").doesNotContain("LeakReportTest");
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
    assertThat(text()).doesNotContain("1111");
  }

  private void awaitLog(String part) {
    await()
        .atMost(Duration.ofSeconds(30))
        .untilAsserted(
            () -> {
              System.gc();
              assertThat(text()).contains(part);
            });
  }

  private String text() {
    return log.toString(StandardCharsets.UTF_8);
  }
}
