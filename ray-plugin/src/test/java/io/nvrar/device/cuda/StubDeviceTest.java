package io.nvrar.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

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

  @Override
  protected Held hold(DeviceStream stream) {
    long handle = stream.handle();
    StubDriver.hold(handle, true);
    boolean[] over = new boolean[1];
    return () -> {
      if (!over[0]) {
        over[0] = true;
        StubDriver.hold(handle, false);
      }
    };
  }

  @Test
  void piecesOfPinnedMemoryAreUsedAgain() {
    int[] values = new int[3 << 20];
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, values.length)) {
      long living = 0;
      for (int i = 0; i < 20; i++) {
        try (DeviceStream stream = device().createStream()) {
          buffer.copyFrom(values, stream);
          buffer.copyTo(values, stream);
        }
        living = i == 0 ? StubDriver.living() : living;
      }
      assertThat(StubDriver.living()).isEqualTo(living);
    }
  }

  @Test
  void aCopyThatTheDriverRefusesLeavesOthersAsTheyAre() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer buffer = buffer(1)) {
      for (String function : new String[] {"cuMemcpyAsync", "cuEventRecord"}) {
        StubDriver.fail(function + ":1:1");
        try {
          assertThatThrownBy(() -> buffer.copyFrom(new int[] {2}, stream))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(function + " failed on GPU 0");
          assertThatThrownBy(() -> buffer.copyTo(new int[1], stream))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(function + " failed on GPU 0");
        } finally {
          StubDriver.fail("");
        }
        int[] back = new int[1];
        buffer.copyFrom(new int[] {3}, stream);
        buffer.copyTo(back, stream);
        assertThat(back).containsExactly(3);
      }
    }
  }

  @Test
  void aStageFailsWhereTheDriverCannotTellOfItsEvent() throws Exception {
    try (DeviceStream stream = device().createStream();
        DeviceEvent event = device().createEvent();
        Held held = hold(stream)) {
      event.record(stream);
      CompletableFuture<Void> pending = event.whenDone().toCompletableFuture();
      StubDriver.fail("cuEventQuery:1:1");
      try {
        assertThatThrownBy(() -> pending.get(60, TimeUnit.SECONDS))
            .hasCauseInstanceOf(IllegalStateException.class)
            .hasMessageContaining("cuEventQuery failed on GPU 0");
        assertThat(event.whenDone().toCompletableFuture()).isCompletedExceptionally();
      } finally {
        StubDriver.fail("");
      }
      CompletableFuture<Void> next = event.whenDone().toCompletableFuture();
      held.letGo();
      assertThat(next.get(60, TimeUnit.SECONDS)).isNull();
    }
  }

  @Test
  void stagesLeaveNothingBehind() throws Exception {
    try (DeviceStream stream = device().createStream()) {
      long living = StubDriver.living();
      try (DeviceEvent event = device().createEvent()) {
        for (int i = 0; i < 20; i++) {
          try (Held held = hold(stream)) {
            event.record(stream);
            CompletableFuture<Void> stage = event.whenDone().toCompletableFuture();
            held.letGo();
            assertThat(stage.get(60, TimeUnit.SECONDS)).isNull();
          }
        }
      }
      assertThat(StubDriver.living()).isEqualTo(living);
    }
  }
}
