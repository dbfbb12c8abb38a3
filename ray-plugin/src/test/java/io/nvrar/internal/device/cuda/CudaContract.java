package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceMemoryException;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.device.DeviceContract;
import io.nvrar.internal.device.host.HostDevice;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import jcuda.driver.CUcontext;
import jcuda.driver.CUevent;
import jcuda.driver.CUgraph;
import jcuda.driver.CUstream;
import jcuda.driver.CUstreamCaptureMode;
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

  /** Keeps a stream from going on, as a kernel that waits does. */
  protected abstract Held hold(DeviceStream stream);

  /** A stream that does not go on. */
  protected interface Held extends AutoCloseable {
    /** Lets it go on. Idempotent. */
    void letGo();

    @Override
    default void close() {
      letGo();
    }
  }

  @Test
  void aCopyFromJavaWaitsForNothingAndOneToJavaForItsOwnStreamOnly() throws Exception {
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceBuffer buffer = buffer(1);
        DeviceBuffer elsewhere = buffer(0);
        Held held = hold(stream)) {
      int[] values = {2};
      buffer.copyFrom(values, stream);
      values[0] = 3;
      elsewhere.copyFrom(values, other);
      int[] back = new int[1];
      elsewhere.copyTo(back, other);
      assertThat(back).containsExactly(3);
      buffer.copyTo(back, other);
      assertThat(back).as("while its stream does not go on").containsExactly(1);
      Future<int[]> late =
          start(
              () -> {
                int[] target = new int[1];
                buffer.copyTo(target, stream);
                return target;
              });
      assertThatThrownBy(() -> late.get(200, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      held.letGo();
      assertThat(late.get(60, TimeUnit.SECONDS)).containsExactly(2);
    }
  }

  @Test
  void aLargeCopyFromJavaWaitsForItsOwnPiecesAndKeepsNoOtherStreamWaiting() throws Exception {
    int many = 3 << 20;
    int[] values = new Random(21).ints(many).toArray();
    int[] expected = values.clone();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceBuffer large = device().allocate(DataType.INT32, many);
        DeviceBuffer small = buffer(0);
        Held held = hold(stream)) {
      Future<Boolean> copy =
          start(
              () -> {
                large.copyFrom(values, stream);
                Arrays.fill(values, 0);
                return true;
              });
      assertThatThrownBy(() -> copy.get(300, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      int[] back = new int[1];
      small.copyFrom(new int[] {4}, other);
      small.copyTo(back, other);
      assertThat(back).containsExactly(4);
      assertThat(copy).isNotDone();
      held.letGo();
      assertThat(copy.get(60, TimeUnit.SECONDS)).isTrue();
      int[] all = new int[many];
      large.copyTo(all, stream);
      assertThat(all).isEqualTo(expected);
    }
  }

  @Test
  void manySmallCopiesFromJavaDoNotWaitForTheirStream() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer buffer = device().allocate(DataType.INT32, 200);
        Held held = hold(stream)) {
      for (int i = 0; i < 200; i++) {
        buffer.slice(i, 1).copyFrom(new int[] {i}, stream);
      }
      held.letGo();
      int[] back = new int[200];
      buffer.copyTo(back, stream);
      assertThat(back).isEqualTo(IntStream.range(0, 200).toArray());
    }
  }

  @Test
  void whatWasCopiedFromJavaArrivesAlsoIfItsStreamIsClosedAtOnce() {
    DeviceStream stream = device().createStream();
    try (DeviceStream other = device().createStream();
        DeviceEvent copied = device().createEvent();
        DeviceBuffer buffer = buffer(0);
        DeviceBuffer elsewhere = buffer(0);
        Held held = hold(stream)) {
      buffer.copyFrom(new int[] {5}, stream);
      copied.record(stream);
      stream.close();
      for (int i = 0; i < 50; i++) {
        elsewhere.copyFrom(new int[] {100 + i}, other);
      }
      other.synchronize();
      held.letGo();
      copied.synchronize();
      assertThat(ints(buffer)).containsExactly(5);
      assertThat(ints(elsewhere)).containsExactly(149);
    }
  }

  @Test
  void aCopyToJavaThrowsWhatHasFailedOnItsStreamAndCopiesNothing() {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceBuffer buffer = buffer(6)) {
      calls.callOn(stream);
      calls.failure = new CollectiveException("rank 1 is lost");
      int[] back = {-1};
      for (int i = 0; i < 2; i++) {
        assertThatThrownBy(() -> buffer.copyTo(back, stream)).hasMessage("rank 1 is lost");
        assertThat(back).containsExactly(-1);
      }
      buffer.copyFrom(new int[] {7}, stream);
      buffer.copyTo(back, other);
      assertThat(back[0]).isIn(6, 7);
      calls.over = true;
      assertThatThrownBy(() -> buffer.copyTo(back, stream)).hasMessage("rank 1 is lost");
      buffer.copyTo(back, stream);
      assertThat(back).containsExactly(7);
    }
  }

  @Test
  void aCopyOnTheStreamOfAnotherDeviceIsRefusedByName() {
    HostDevice host = HostDevice.instance();
    try (DeviceStream stream = device().createStream();
        DeviceStream hostStream = host.createStream();
        DeviceBuffer buffer = buffer(1);
        DeviceBuffer pinned = device().allocatePinned(DataType.INT32, 1)) {
      refused(
          () -> buffer.copyFrom(new int[1], hostStream),
          "copyFrom on GPU 0 needs a stream of GPU 0, not one of host");
      refused(
          () -> buffer.copyTo(new int[1], hostStream),
          "copyTo on GPU 0 needs a stream of GPU 0, not one of host");
      refused(
          () -> pinned.copyTo(new int[1], stream),
          "copyTo on the host needs a stream of the host, not one of GPU 0");
    }
  }

  @Test
  void aStageIsForThePlaceThatItsEventHadWhenItWasAskedFor() throws Exception {
    DeviceStream stream = device().createStream();
    DeviceEvent event = device().createEvent();
    try (DeviceStream other = device().createStream();
        Held held = hold(stream)) {
      event.record(stream);
      CompletableFuture<Void> stage = event.whenDone().toCompletableFuture();
      event.record(other);
      event.synchronize();
      assertThat(event.isDone()).isTrue();
      assertThat(event.whenDone().toCompletableFuture().get(60, TimeUnit.SECONDS)).isNull();
      event.close();
      stream.close();
      Thread.sleep(50);
      assertThat(stage).isNotDone();
      held.letGo();
      assertThat(stage.get(60, TimeUnit.SECONDS)).isNull();
    }
  }

  @Test
  void anEventWhoseStagesAreCompleteIsRecordedAgainInPlace() throws Exception {
    try (DeviceStream stream = device().createStream();
        DeviceEvent event = device().createEvent()) {
      for (int i = 0; i < 10; i++) {
        event.record(stream);
        long handle = event.handle();
        event.whenDone().toCompletableFuture().get(60, TimeUnit.SECONDS);
        event.record(stream);
        assertThat(event.handle()).isEqualTo(handle);
      }
    }
  }

  @Test
  void noStageWaitsForTheEventOfAnother() throws Exception {
    try (DeviceStream first = device().createStream();
        DeviceStream second = device().createStream();
        DeviceEvent early = device().createEvent();
        DeviceEvent late = device().createEvent();
        Held firstHeld = hold(first);
        Held secondHeld = hold(second)) {
      early.record(first);
      late.record(second);
      CompletableFuture<Void> ofFirst = early.whenDone().toCompletableFuture();
      CompletableFuture<Void> ofSecond = late.whenDone().toCompletableFuture();
      secondHeld.letGo();
      assertThat(ofSecond.get(60, TimeUnit.SECONDS)).isNull();
      assertThat(ofFirst).isNotDone();
      firstHeld.letGo();
      assertThat(ofFirst.get(60, TimeUnit.SECONDS)).isNull();
    }
  }

  @Test
  void oneThreadCompletesAllStagesAndEndsWhenThereAreNone() throws Exception {
    List<CompletableFuture<Thread>> ran = new ArrayList<>();
    try (DeviceStream stream = device().createStream();
        Held held = hold(stream)) {
      for (int i = 0; i < 20; i++) {
        DeviceEvent event = device().createEvent();
        event.record(stream);
        ran.add(
            event
                .whenDone()
                .thenApply(
                    done -> {
                      // A dependent may use the device, and the event itself.
                      event.record(stream);
                      assertThat(event.whenDone()).isNotNull();
                      event.close();
                      return Thread.currentThread();
                    })
                .toCompletableFuture());
      }
      held.letGo();
      for (CompletableFuture<Thread> one : ran) {
        assertThat(one.get(60, TimeUnit.SECONDS)).isSameAs(ran.get(0).get());
      }
    }
    Thread thread = ran.get(0).get();
    assertThat(thread.getName()).isEqualTo("nvrar-events-0");
    assertThat(thread.isDaemon()).isTrue();
    thread.join(TimeUnit.SECONDS.toMillis(60));
    assertThat(thread.isAlive()).isFalse();
  }

  @Test
  void aStageFailsWithWhatHasFailedOnItsStreamAndSynchronizeThrowsItNevertheless()
      throws Exception {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceEvent event = device().createEvent();
        Held held = hold(stream)) {
      calls.callOn(stream);
      event.record(stream);
      CompletableFuture<Void> pending = event.whenDone().toCompletableFuture();
      calls.failure = new CollectiveException("rank 1 is lost");
      calls.over = true;
      held.letGo();
      assertThatThrownBy(() -> pending.get(60, TimeUnit.SECONDS)).cause().isSameAs(calls.failure);
      assertThatThrownBy(stream::synchronize).isSameAs(calls.failure);
      stream.synchronize();
      assertThat(event.whenDone().toCompletableFuture().get(60, TimeUnit.SECONDS)).isNull();
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
  void aGraphHoldsTheCallsOfEveryStreamThatItsCaptureSpans() {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceStream side = device().createStream();
        DeviceStream elsewhere = device().createStream();
        DeviceEvent fork = device().createEvent();
        DeviceEvent join = device().createEvent();
        DeviceGraph graph =
            device()
                .capture(
                    stream,
                    () -> {
                      fork.record(stream);
                      side.waitFor(fork);
                      calls.callOn(side);
                      join.record(side);
                      stream.waitFor(join);
                    })) {
      graph.launch(elsewhere);
      assertThat(calls.launches).isEqualTo(1);
      elsewhere.synchronize();
      calls.failure = new CollectiveException("rank 1 is lost");
      assertThatThrownBy(elsewhere::synchronize).hasMessage("rank 1 is lost");
      assertThatThrownBy(() -> graph.launch(elsewhere)).hasMessage("rank 1 is lost");
      calls.failure = null;
      calls.over = true;
      assertThatThrownBy(() -> graph.launch(stream)).hasMessage("the group is closed");
      graph.recapture(stream, () -> {});
      graph.launch(stream);
    }
  }

  @Test
  void aGraphHoldsNoCallsButThoseOfItsCapture() {
    RecordedCalls before = new RecordedCalls();
    RecordedCalls beside = new RecordedCalls();
    RecordedCalls within = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream()) {
      before.callOn(stream);
      within.callOn(stream);
      try (DeviceGraph graph =
          device()
              .capture(
                  stream,
                  () -> {
                    beside.callOn(other);
                    within.callOn(stream);
                    within.callOn(stream);
                  })) {
        before.over = true;
        beside.over = true;
        graph.launch(stream);
        assertThat(within.launches).isEqualTo(1);
        within.over = true;
        assertThatThrownBy(() -> graph.launch(stream)).hasMessage("the group is closed");
      }
    }
  }

  @Test
  void aCaptureOfAForeignStreamHoldsTheCallsOfAllThatStandForItAndOfThoseThatJoinByJCuda() {
    JCudaDriver.cuCtxSetCurrent(CudaInterop.context(device()));
    CUstream owner = new CUstream();
    CUevent event = new CUevent();
    JCudaDriver.cuStreamCreate(owner, 1);
    JCudaDriver.cuEventCreate(event, 0);
    RecordedCalls first = new RecordedCalls();
    RecordedCalls second = new RecordedCalls();
    try (DeviceStream wrapped = CudaInterop.wrapStream(device(), owner);
        DeviceStream again = CudaInterop.wrapStream(device(), owner);
        DeviceStream side = device().createStream();
        DeviceGraph graph =
            device()
                .capture(
                    wrapped,
                    () -> {
                      first.callOn(again);
                      JCudaDriver.cuEventRecord(event, owner);
                      JCudaDriver.cuStreamWaitEvent(CudaInterop.stream(side), event, 0);
                      second.callOn(side);
                      JCudaDriver.cuEventRecord(event, CudaInterop.stream(side));
                      JCudaDriver.cuStreamWaitEvent(owner, event, 0);
                    })) {
      graph.launch(wrapped);
      assertThat(first.launches).isEqualTo(1);
      assertThat(second.launches).isEqualTo(1);
    } finally {
      JCudaDriver.cuEventDestroy(event);
      JCudaDriver.cuStreamDestroy(owner);
    }
  }

  @Test
  void theCallsOfACaptureThatSomebodyElseHasBegunAreInNoneOfOurs() {
    JCudaDriver.cuCtxSetCurrent(CudaInterop.context(device()));
    RecordedCalls theirs = new RecordedCalls();
    RecordedCalls ours = new RecordedCalls();
    CUgraph captured = new CUgraph();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream()) {
      JCudaDriver.cuStreamBeginCapture(
          CudaInterop.stream(other), CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED);
      DeviceGraph graph =
          device()
              .capture(
                  stream,
                  () -> {
                    theirs.callOn(other);
                    ours.callOn(stream);
                  });
      JCudaDriver.cuStreamEndCapture(CudaInterop.stream(other), captured);
      JCudaDriver.cuGraphDestroy(captured);
      theirs.failure = new CollectiveException("rank 1 is lost");
      graph.launch(stream);
      stream.synchronize();
      assertThat(ours.launches).isEqualTo(1);
      assertThatThrownBy(other::synchronize).hasMessage("rank 1 is lost");
      graph.close();
    }
  }

  @Test
  void aCaptureThatFailsTakesNoCallsOfLaterOnes() {
    RecordedCalls dropped = new RecordedCalls();
    RecordedCalls kept = new RecordedCalls();
    try (DeviceStream stream = device().createStream()) {
      assertThatThrownBy(
              () ->
                  device()
                      .capture(
                          stream,
                          () -> {
                            dropped.callOn(stream);
                            throw new UnsupportedOperationException("half way");
                          }))
          .hasMessage("half way");
      try (DeviceGraph graph = device().capture(stream, () -> kept.callOn(stream))) {
        dropped.over = true;
        graph.launch(stream);
        assertThat(kept.launches).isEqualTo(1);
      }
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
          String.format(
              Locale.ROOT,
              "the first byte of the buffer int32[4], 0x%x, is memory of the host, not of GPU 0",
              pinned.address()));
      refused(
          () -> CudaInterop.wrap(device(), onHost.address(), DataType.INT32, 4),
          String.format(
              Locale.ROOT,
              "the first byte of the buffer int32[4], 0x%x, was not allocated by the driver, so it is not memory of GPU 0",
              onHost.address()));
      refused(
          () -> CudaInterop.wrap(device(), small.address() + 2, DataType.INT32, 1),
          String.format(
              Locale.ROOT,
              "the buffer int32[1] at 0x%x is not aligned to its elements of 4 bytes",
              small.address() + 2));
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
          String.format(
              Locale.ROOT,
              "the first byte of the buffer int32[1], 0x%x, is memory of GPU 1, not of GPU 0",
              otherBuffer.address()));
      refused(
          () -> CudaInterop.wrapStream(device(), otherStream.handle()),
          String.format(
              Locale.ROOT,
              "the stream 0x%x does not belong to the primary context of GPU 0",
              otherStream.handle()));
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
          .isInstanceOf(DeviceMemoryException.class)
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

  private static <T> Future<T> start(Callable<T> work) {
    FutureTask<T> task = new FutureTask<>(work);
    Thread thread = new Thread(task, "started by a test");
    thread.setDaemon(true);
    thread.start();
    return task;
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
