package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.support.CudaJvm;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import jcuda.driver.CUgraph;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * On a real GPU, or two where there are two: also what a stub that runs all at once cannot show.
 */
@Tag("gpu")
class GpuDeviceTest extends CudaContract {
  private static final long MILLIS = 300;

  /** Loaded before a test holds anything: what is loaded later may wait for it. */
  private final Kernels kernels = new Kernels(device());

  @Override
  protected Held hold(DeviceStream stream) {
    return kernels.hold(stream)::run;
  }

  @Test
  void submittingWaitsForNothingAndABlockingCopyForAll() {
    try (DeviceStream stream = device().createStream();
        DeviceEvent start = device().createEvent();
        DeviceEvent end = device().createEvent();
        DeviceBuffer target = buffer(0)) {
      start.record(stream);
      kernels.storeLate(stream, target, MILLIS);
      end.record(stream);
      assertThat(end.isDone()).isFalse();
      assertThatThrownBy(() -> end.elapsedSince(start)).isInstanceOf(IllegalStateException.class);
      assertThat(ints(target)).containsExactly(42);
      assertThat(end.isDone()).isTrue();
      assertThat(end.elapsedSince(start))
          .isBetween(Duration.ofMillis(MILLIS), Duration.ofMillis(MILLIS * 10));
    }
  }

  @Test
  void aStreamWaitsOnTheDeviceForTheEventOfAnother() {
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceEvent event = device().createEvent();
        DeviceBuffer middle = buffer(0);
        DeviceBuffer target = buffer(0)) {
      kernels.storeLate(stream, middle, MILLIS);
      event.record(stream);
      other.waitFor(event);
      other.copy(middle, target);
      assertThat(event.isDone()).isFalse();
      other.synchronize();
      assertThat(ints(target)).containsExactly(42);
    }
  }

  @Test
  void aGraphThatIsBeingExecutedMayBeClosedAndRecaptured() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer nine = buffer(9);
        DeviceBuffer first = buffer(0);
        DeviceBuffer second = buffer(0)) {
      DeviceGraph graph = device().capture(stream, () -> kernels.storeLate(stream, first, MILLIS));
      graph.launch(stream);
      graph.recapture(stream, () -> stream.copy(nine, second));
      graph.launch(stream);
      graph.close();
      stream.synchronize();
      assertThat(ints(first)).containsExactly(42);
      assertThat(ints(second)).containsExactly(9);
    }
  }

  @Test
  void theThreadThatAsksForEventsBreaksNoCaptureThatForbidsItToAllThreads() throws Exception {
    try (DeviceStream late = device().createStream();
        DeviceStream stream = device().createStream();
        DeviceEvent event = device().createEvent();
        Held held = hold(late)) {
      event.record(late);
      CompletableFuture<Void> stage = event.whenDone().toCompletableFuture();
      CUgraph graph = new CUgraph();
      JCudaDriver.cuStreamBeginCapture(
          CudaInterop.stream(stream), CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL);
      Thread.sleep(50);
      assertThat(JCudaDriver.cuStreamEndCapture(CudaInterop.stream(stream), graph)).isZero();
      JCudaDriver.cuGraphDestroy(graph);
      held.letGo();
      assertThat(stage.get(60, TimeUnit.SECONDS)).isNull();
    }
  }

  @Test
  void aKernelThatBreaksTheContextSaysThatTheProcessMustEnd(@TempDir Path scratch)
      throws Exception {
    assertThat(CudaJvm.start(scratch, BrokenProcess.class).end(0))
        .matches(
            "(?s)(CollectiveFatalException: \\S+ failed on GPU 0 with CUDA_ERROR_ILLEGAL_ADDRESS \\(700: .*must end\\R){2}");
  }

  /** Breaks its context and says what the next two calls throw. */
  static final class BrokenProcess {
    private BrokenProcess() {}

    public static void main(String[] args) {
      DeviceStream stream = CudaDevices.open(0).createStream();
      new Kernels(stream.device()).breakTheContext(stream);
      for (int i = 0; i < 2; i++) {
        try {
          stream.synchronize();
          System.out.println("nothing was thrown");
        } catch (RuntimeException e) {
          System.out.println(e.getClass().getSimpleName() + ": " + e.getMessage());
        }
      }
    }
  }
}
