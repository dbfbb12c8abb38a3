package io.nvrar.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.device.DeviceContract;
import io.nvrar.device.host.HostDevice;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import jcuda.driver.CUcontext;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.Test;

/** What is true of GPUs only; the driver is a real one or the stub. */
abstract class CudaContract extends DeviceContract {
  @Override
  protected Device device() {
    return CudaDevices.open(0);
  }

  @Test
  void anOrdinalIsOneDeviceAndOneThatIsNotThereIsNamed() {
    assertThat(CudaDevices.unavailabilityCause()).isNull();
    assertThat(device()).isSameAs(CudaDevices.open(0)).hasToString("GPU 0");
    assertThat(device().backend()).isEqualTo(Backend.CUDA);
    assertThat(device().ordinal()).isZero();
    for (int ordinal : new int[] {-1, 99}) {
      assertThatThrownBy(() -> CudaDevices.open(ordinal))
          .isInstanceOf(BackendUnavailableException.class)
          .hasMessageMatching(
              "there is no GPU " + ordinal + " in this process, it sees \\d, from 0 to \\d.*");
    }
  }

  @Test
  void theLibraryOfJCudaIsTheOneThatWasExtractedPrivately() throws Exception {
    device();
    assertThat(Files.readAllLines(Path.of("/proc/self/maps")))
        .filteredOn(line -> line.contains("libJCudaDriver"))
        .isNotEmpty()
        .allMatch(line -> line.contains("/jcuda-12.6.0-"));
    assertThat(System.getProperty("java.io.tmpdir")).doesNotContain("jcuda");
  }

  @Test
  void anyThreadMayUseWhatAnotherHasMade() throws Exception {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer source = buffer(4);
        DeviceBuffer target = buffer(0)) {
      DeviceGraph graph = device().capture(stream, () -> stream.copy(source, target));
      inAnotherThread(
          () -> {
            graph.launch(stream);
            stream.synchronize();
            assertThat(ints(target)).containsExactly(4);
            graph.recapture(stream, () -> stream.copy(target, source));
            graph.close();
          });
    }
    DeviceBuffer closedElsewhere = buffer(1);
    inAnotherThread(closedElsewhere::close);
  }

  @Test
  void copiesOfOneThreadDoNotBreakTheCaptureOfAnother() throws Exception {
    CountDownLatch capturing = new CountDownLatch(1);
    CountDownLatch copied = new CountDownLatch(1);
    try (DeviceStream stream = device().createStream();
        DeviceBuffer source = buffer(5);
        DeviceBuffer target = buffer(0)) {
      ExecutorService executor = Executors.newSingleThreadExecutor();
      try {
        Future<DeviceGraph> capture =
            executor.submit(
                () ->
                    device()
                        .capture(
                            stream,
                            () -> {
                              stream.copy(source, target);
                              capturing.countDown();
                              await(copied);
                            }));
        await(capturing);
        source.copyFrom(new int[] {6});
        assertThat(ints(source)).containsExactly(6);
        copied.countDown();
        try (DeviceGraph graph = capture.get(60, TimeUnit.SECONDS)) {
          graph.launch(stream);
          assertThat(ints(target)).containsExactly(6);
        }
      } finally {
        executor.shutdownNow();
      }
    }
  }

  @Test
  void aCaptureSpansTheStreamsThatWaitForItsEvents() {
    try (DeviceStream stream = device().createStream();
        DeviceStream side = device().createStream();
        DeviceEvent fork = device().createEvent();
        DeviceEvent join = device().createEvent();
        DeviceBuffer one = buffer(1);
        DeviceBuffer middle = buffer(0);
        DeviceBuffer target = buffer(0);
        DeviceGraph graph =
            device()
                .capture(
                    stream,
                    () -> {
                      fork.record(stream);
                      side.waitFor(fork);
                      assertThat(side.isCapturing()).isTrue();
                      side.copy(one, middle);
                      join.record(side);
                      stream.waitFor(join);
                      stream.copy(middle, target);
                    })) {
      assertThat(side.isCapturing()).isFalse();
      assertThat(ints(target)).containsExactly(0);
      graph.launch(stream);
      assertThat(ints(target)).containsExactly(1);
    }
  }

  @Test
  void aGraphIsNotLaunchedIntoACapture() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer target = buffer(0);
        DeviceGraph graph = device().capture(stream, () -> stream.copy(one, target))) {
      assertThatThrownBy(() -> device().capture(stream, () -> graph.launch(stream)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith(
              "cuGraphLaunch failed on GPU 0 with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900");
      assertThat(stream.isCapturing()).isFalse();
      graph.launch(stream);
      assertThat(ints(target)).containsExactly(1);
    }
  }

  @Test
  void whatBelongsToTheHostIsRefusedByName() {
    HostDevice host = HostDevice.instance();
    try (DeviceStream stream = device().createStream();
        DeviceStream hostStream = host.createStream();
        DeviceEvent event = device().createEvent();
        DeviceEvent hostEvent = host.createEvent();
        DeviceBuffer buffer = buffer(1);
        DeviceBuffer hostBuffer = host.allocate(DataType.INT32, 1);
        DeviceGraph graph = device().capture(stream, () -> {})) {
      refused(
          () -> stream.copy(hostBuffer, buffer),
          "a copy on a stream of GPU 0 needs memory of GPU 0 or memory that allocatePinned gave, not int32[1] on the host");
      refused(
          () -> hostStream.copy(hostBuffer, buffer),
          "a copy on a stream of the host needs memory of the host, not int32[1] on the GPU 0");
      refused(
          () -> device().capture(hostStream, () -> {}),
          "capture on GPU 0 needs a stream of GPU 0, not one of host");
      refused(
          () -> graph.launch(hostStream),
          "launching a graph on GPU 0 needs a stream of GPU 0, not one of host");
      refused(
          () -> event.record(hostStream),
          "recording an event on GPU 0 needs a stream of GPU 0, not one of host");
      refused(
          () -> stream.waitFor(hostEvent),
          "waitFor on GPU 0 needs an event of GPU 0, not one of host");
      refused(
          () -> hostStream.waitFor(event),
          "waitFor on the host needs an event of the host, not one of GPU 0");
    }
  }

  @Test
  void pinnedMemoryIsABufferOfTheHost() {
    try (DeviceBuffer pinned = device().allocatePinned(DataType.FLOAT16, 3)) {
      assertThat(pinned.device()).isSameAs(HostDevice.instance());
      pinned.copyFrom(new float[] {1, 2, 3});
      float[] back = new float[2];
      pinned.slice(1, 2).copyTo(back);
      assertThat(back).containsExactly(2, 3);
    }
  }

  @Test
  void aForeignPointerIsABufferThatIsNotFreedWithIt() {
    try (DeviceBuffer owner = device().allocate(DataType.INT32, 4)) {
      owner.copyFrom(new int[] {1, 2, 3, 4});
      DeviceBuffer wrapped = CudaInterop.wrap(device(), owner.address() + 4, DataType.INT32, 3);
      assertThat(ints(wrapped)).containsExactly(2, 3, 4);
      assertThat(ints(CudaInterop.wrap(device(), CudaInterop.pointer(wrapped), DataType.INT32, 1)))
          .containsExactly(2);
      wrapped.close();
      assertThat(ints(owner)).containsExactly(1, 2, 3, 4);
    }
  }

  @Test
  void aPointerThatIsNotMemoryOfTheDeviceIsRefusedByName() {
    HostDevice host = HostDevice.instance();
    try (DeviceBuffer small = device().allocate(DataType.INT32, 4);
        DeviceBuffer pinned = device().allocatePinned(DataType.INT32, 4);
        DeviceBuffer onHost = host.allocate(DataType.INT32, 4)) {
      refused(
          () -> CudaInterop.wrap(device(), pinned.address(), DataType.INT32, 4),
          "the first byte of the buffer int32[4], 0x%x, is memory of the host, not of GPU 0"
              .formatted(pinned.address()));
      refused(
          () -> CudaInterop.wrap(device(), onHost.address(), DataType.INT32, 4),
          "the first byte of the buffer int32[4], 0x%x, is no memory that the driver has allocated, so none of GPU 0"
              .formatted(onHost.address()));
      refused(
          () -> CudaInterop.wrap(device(), small.address() + 2, DataType.INT32, 1),
          "the buffer int32[1] at 0x%x is not aligned to its elements of 4 bytes"
              .formatted(small.address() + 2));
      assertThatThrownBy(
              () -> CudaInterop.wrap(device(), small.address(), DataType.INT32, 1L << 40))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith("the last byte of the buffer int32[1099511627776]");
      refused(
          () -> CudaInterop.wrap(host, small.address(), DataType.INT32, 1),
          "CudaInterop needs a GPU, not host");
    }
  }

  @Test
  void aForeignStreamDoesWhatOneOfOursDoesAndIsNotDestroyedWithIt() {
    JCudaDriver.cuCtxSetCurrent(CudaInterop.context(device()));
    CUstream owner = new CUstream();
    JCudaDriver.cuStreamCreate(owner, 1);
    try (DeviceBuffer source = buffer(7);
        DeviceBuffer target = buffer(0);
        DeviceEvent event = device().createEvent()) {
      DeviceStream wrapped = CudaInterop.wrapStream(device(), Handles.handle(owner));
      assertThat(wrapped.handle()).isEqualTo(Handles.handle(owner));
      try (DeviceGraph graph = device().capture(wrapped, () -> wrapped.copy(source, target))) {
        graph.launch(wrapped);
        event.record(wrapped);
        event.synchronize();
        assertThat(ints(target)).containsExactly(7);
      }
      wrapped.synchronize();
      wrapped.close();
      assertThatThrownBy(wrapped::handle)
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("handle was called on a closed stream");
      assertThat(JCudaDriver.cuStreamQuery(owner)).isZero();
      DeviceStream again = CudaInterop.wrapStream(device(), owner);
      assertThat(CudaInterop.stream(again)).isEqualTo(owner);
      again.close();
    } finally {
      JCudaDriver.cuStreamDestroy(owner);
    }
    refused(
        () -> CudaInterop.wrapStream(device(), 0),
        "the default stream (handle 0) cannot be wrapped, it waits for all others; create one");
  }

  @Test
  void whatBelongsToAnotherGpuIsRefusedByName() {
    Device other = secondGpu();
    try (DeviceStream stream = device().createStream();
        DeviceStream otherStream = other.createStream();
        DeviceBuffer buffer = buffer(1);
        DeviceBuffer otherBuffer = other.allocate(DataType.INT32, 1);
        DeviceGraph graph = device().capture(stream, () -> {})) {
      refused(
          () -> stream.copy(otherBuffer, buffer),
          "a copy on a stream of GPU 0 needs memory of GPU 0 or memory that allocatePinned gave, not int32[1] on the GPU 1");
      refused(
          () -> graph.launch(otherStream),
          "launching a graph on GPU 0 needs a stream of GPU 0, not one of GPU 1");
      refused(
          () -> CudaInterop.wrap(device(), otherBuffer.address(), DataType.INT32, 1),
          "the first byte of the buffer int32[1], 0x%x, is memory of GPU 1, not of GPU 0"
              .formatted(otherBuffer.address()));
      refused(
          () -> CudaInterop.wrapStream(device(), otherStream.handle()),
          "the stream 0x%x does not belong to the primary context of GPU 0"
              .formatted(otherStream.handle()));
    }
  }

  @Test
  void eachGpuIsCurrentForItsOwnCallsWhateverWasCurrentBefore() {
    Device other = secondGpu();
    try (DeviceBuffer here = device().allocatePinned(DataType.INT32, 1);
        DeviceBuffer first = buffer(1);
        DeviceBuffer second = other.allocate(DataType.INT32, 1);
        DeviceStream stream = device().createStream();
        DeviceStream otherStream = other.createStream()) {
      stream.copy(first, here);
      stream.synchronize();
      otherStream.copy(here, second);
      otherStream.synchronize();
      assertThat(ints(second)).containsExactly(1);
      CUcontext current = new CUcontext();
      JCudaDriver.cuCtxGetCurrent(current);
      assertThat(current).isEqualTo(CudaInterop.context(other));
    }
  }

  @Test
  void itIsAllTheSameWhetherAUserOfJCudaHasItsExceptionsOnOrOff() {
    for (boolean on : new boolean[] {false, true}) {
      JCudaDriver.setExceptionsEnabled(on);
      assertThatThrownBy(() -> CudaInterop.wrap(device(), 8, DataType.INT32, 1))
          .isInstanceOf(IllegalArgumentException.class);
      assertThatThrownBy(() -> device().allocate(DataType.INT8, 1L << 48))
          .isInstanceOf(OutOfMemoryError.class)
          .hasMessageMatching(
              "GPU 0 has no room for a buffer of int8\\[\\d+], \\d+ bytes; \\d+ of its \\d+ bytes are free");
    }
  }

  private static Device secondGpu() {
    try {
      return CudaDevices.open(1);
    } catch (BackendUnavailableException e) {
      assumeTrue(false, "there is one GPU only");
      throw e;
    }
  }

  private static void refused(Runnable call, String message) {
    assertThatThrownBy(call::run).isInstanceOf(IllegalArgumentException.class).hasMessage(message);
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void inAnotherThread(Runnable work) throws Exception {
    ExecutorService executor = Executors.newSingleThreadExecutor();
    try {
      executor.submit(work).get(60, TimeUnit.SECONDS);
    } finally {
      executor.shutdownNow();
    }
  }
}
