package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceStream;
import io.nvrar.cuda.CudaInterop;
import io.nvrar.internal.device.cuda.CudaContract.Held;
import io.nvrar.internal.device.host.HostDevice;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUstream;
import jcuda.driver.CUstream_flags;
import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * How the order of other code's work and ours is kept, on its streams and on the default streams;
 * the driver is a real one or the stub.
 */
abstract class CudaInteropContract {
  private static final long LEGACY = 1;
  private static final long PER_THREAD = 2;

  private final Device device = CudaDevices.open(0);
  private final DeviceStream ours = device.createStream();
  private final DeviceStream aside = device.createStream();
  private final DeviceEvent event = device.createEvent();
  private final DeviceBuffer seven = device.allocate(DataType.INT32, 1);
  private final DeviceBuffer target = device.allocate(DataType.INT32, 1);

  // What other code has made.
  private final CUstream stream = new CUstream();
  private final CUstream blocking = new CUstream();
  private final CUevent foreign = new CUevent();

  /** Keeps a stream from going on, as a kernel that waits does. */
  abstract Held hold(DeviceStream held);

  final Device device() {
    return device;
  }

  @BeforeEach
  void makeWhatOtherCodeMakes() {
    JCudaDriver.cuCtxSetCurrent(CudaInterop.context(device));
    JCudaDriver.cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING);
    JCudaDriver.cuStreamCreate(blocking, CUstream_flags.CU_STREAM_DEFAULT);
    JCudaDriver.cuEventCreate(foreign, CUevent_flags.CU_EVENT_DISABLE_TIMING);
    seven.copyFrom(new int[] {7});
    target.copyFrom(new int[] {0});
  }

  @AfterEach
  void destroyIt() {
    ours.close();
    aside.close();
    event.close();
    seven.close();
    target.close();
    assertThat(JCudaDriver.cuStreamDestroy(stream)).isZero();
    assertThat(JCudaDriver.cuStreamDestroy(blocking)).isZero();
    assertThat(JCudaDriver.cuEventDestroy(foreign)).isZero();
  }

  @Test
  void ourStreamGoesOnOnceAForeignEventHasHappened() throws Exception {
    DeviceEvent wrapped = CudaInterop.wrapEvent(device, Handles.handle(foreign));
    assertThat(wrapped.isDone()).as("never recorded").isTrue();
    try (DeviceStream theirs = CudaInterop.wrapStream(device, stream);
        Held held = hold(theirs)) {
      JCudaDriver.cuEventRecord(foreign, stream);
      ours.waitFor(wrapped);
      ours.copy(seven, target);
      assertThat(wrapped.isDone()).isFalse();
      CompletableFuture<Void> stage = wrapped.whenDone().toCompletableFuture();
      Future<Boolean> waited = start(() -> synchronize(wrapped));
      assertThatThrownBy(() -> waited.get(200, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      assertThat(stage).isNotDone();
      assertThat(valueNow()).isZero();
      held.letGo();
      assertThat(waited.get(60, TimeUnit.SECONDS)).isTrue();
      assertThat(stage.get(60, TimeUnit.SECONDS)).isNull();
      ours.synchronize();
      assertThat(valueNow()).isEqualTo(7);
    }
  }

  @Test
  void aForeignEventIsItsOwners() {
    DeviceEvent wrapped = CudaInterop.wrapEvent(device, foreign);
    assertThat(wrapped.device()).isSameAs(device);
    assertThat(wrapped.handle()).isEqualTo(Handles.handle(foreign));
    assertThatThrownBy(() -> wrapped.record(ours))
        .isInstanceOf(UnsupportedOperationException.class)
        .hasMessage(
            "record was called on an event of other code, which alone records it; record one of createEvent and hand out its handle");
    wrapped.close();
    wrapped.close();
    assertThat(JCudaDriver.cuEventQuery(foreign)).isZero();
    assertThatThrownBy(() -> ours.waitFor(wrapped))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("waitFor was called with a closed event");
    assertThatThrownBy(wrapped::handle)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("handle was called with a closed event");
  }

  @Test
  void otherCodeWaitsForOurEventByItsHandle() {
    try (DeviceStream theirs = CudaInterop.wrapStream(device, stream);
        Held held = hold(ours)) {
      event.record(ours);
      assertThat(Handles.handle(CudaInterop.event(event))).isEqualTo(event.handle()).isNotZero();
      JCudaDriver.cuStreamWaitEvent(stream, Handles.event(event.handle()), 0);
      event.close(); // what waits already goes on to do so
      theirs.copy(seven, target);
      assertThat(valueNow()).isZero();
      held.letGo();
      theirs.synchronize();
      assertThat(valueNow()).isEqualTo(7);
    }
  }

  @Test
  void aHandleIsOfThePlaceWhereTheEventWasRecordedLast() throws Exception {
    try (Held held = hold(ours)) {
      event.record(ours);
      CompletableFuture<Void> stage = event.whenDone().toCompletableFuture();
      event.record(aside);
      aside.synchronize();
      assertThat(JCudaDriver.cuEventQuery(Handles.event(event.handle()))).isZero();
      assertThat(stage).isNotDone();
      held.letGo();
      assertThat(stage.get(60, TimeUnit.SECONDS)).isNull();
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {0, LEGACY, PER_THREAD})
  void ourStreamsDoNotWaitForADefaultStreamUnlessForAnEventThere(long handle) {
    try (DeviceStream theirs = CudaInterop.wrapStream(device, handle);
        Held held = hold(theirs)) {
      ours.copy(seven, target);
      ours.synchronize();
      assertThat(valueNow()).isEqualTo(7);
      target.copyFrom(new int[] {0}, ours);
      event.record(theirs);
      ours.waitFor(event);
      ours.copy(seven, target);
      assertThat(event.isDone()).isFalse();
      assertThat(valueNow()).isZero();
      held.letGo();
      ours.synchronize();
      assertThat(valueNow()).isEqualTo(7);
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {0, LEGACY, PER_THREAD})
  void aDefaultStreamDoesNotWaitForOurStreamsUnlessForAnEventThere(long handle) {
    try (DeviceStream theirs = CudaInterop.wrapStream(device, handle);
        Held held = hold(ours)) {
      theirs.copy(seven, target);
      theirs.synchronize();
      assertThat(valueNow()).isEqualTo(7);
      target.copyFrom(new int[] {0}, aside);
      aside.synchronize();
      event.record(ours);
      theirs.waitFor(event);
      theirs.copy(seven, target);
      assertThat(valueNow()).isZero();
      held.letGo();
      theirs.synchronize();
      assertThat(valueNow()).isEqualTo(7);
    }
  }

  @Test
  void aBlockingStreamOfOtherCodeWaitsForTheLegacyStream() {
    try (DeviceStream legacy = CudaInterop.wrapStream(device, 0);
        DeviceStream theirs = CudaInterop.wrapStream(device, blocking);
        Held held = hold(legacy)) {
      theirs.copy(seven, target);
      assertThat(valueNow()).isZero();
      held.letGo();
      theirs.synchronize();
      assertThat(valueNow()).isEqualTo(7);
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {0, LEGACY, PER_THREAD})
  void aBlockingCopyOfAnyThreadWaitsForADefaultStream(long handle) throws Exception {
    try (DeviceStream theirs = CudaInterop.wrapStream(device, handle);
        Held held = hold(theirs)) {
      theirs.copy(seven, target);
      Future<Integer> copied =
          start(
              () -> {
                int[] value = new int[1];
                target.copyTo(value);
                return value[0];
              });
      assertThatThrownBy(() -> copied.get(200, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      held.letGo();
      assertThat(copied.get(60, TimeUnit.SECONDS)).isEqualTo(7);
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {LEGACY, PER_THREAD})
  void aDefaultStreamCopiesAndLaunchesGraphsAndRefusesCapturesAndCalls(long handle) {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream theirs = CudaInterop.wrapStream(device, handle);
        DeviceGraph copies = device.capture(ours, () -> ours.copy(seven, target));
        DeviceGraph callsToo = device.capture(ours, () -> calls.callOn(ours))) {
      String which =
          handle == LEGACY
              ? "the legacy default stream of GPU 0"
              : "the default stream of the thread "
                  + Thread.currentThread().getName()
                  + " on GPU 0";
      assertThat(theirs).hasToString(which);
      assertThat(theirs.handle()).isEqualTo(handle);
      assertThat(theirs.isCapturing()).isFalse();
      copies.launch(theirs);
      int[] back = new int[1];
      target.copyTo(back, theirs);
      assertThat(back).containsExactly(7);
      refused(() -> device.capture(theirs, () -> {}), "a capture cannot be on " + which);
      refused(() -> calls.callOn(theirs), "a group's call cannot be on " + which);
      refused(() -> callsToo.launch(theirs), "a group's call cannot be on " + which);
      seven.copyFrom(new int[] {8}, theirs);
      copies.launch(theirs);
      theirs.synchronize();
      assertThat(valueNow()).isEqualTo(8);
    }
  }

  @Test
  void theLegacyStreamIsRefusedWhileABlockingStreamCapturesAndTheCaptureGoesOn() {
    try (DeviceStream legacy = CudaInterop.wrapStream(device, LEGACY);
        DeviceStream theirs = CudaInterop.wrapStream(device, blocking)) {
      try (DeviceGraph graph =
          device.capture(
              theirs,
              () -> {
                theirs.copy(seven, target);
                broken(() -> legacy.copy(target, seven), "copy");
                broken(() -> legacy.waitFor(event), "waitFor");
                broken(() -> event.record(legacy), "record");
                broken(legacy::synchronize, "synchronize");
                broken(() -> seven.copyFrom(new int[] {1}, legacy), "copyFrom");
                seven.copyFrom(new int[] {9}); // waits for no stream that captures
              })) {
        graph.launch(legacy);
        legacy.synchronize();
        assertThat(valueNow()).isEqualTo(9);
      }
    }
  }

  private static void broken(Runnable call, String what) {
    assertThatThrownBy(call::run)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            what
                + " was called on the legacy default stream of GPU 0 while a blocking stream captures, which it would break");
  }

  @Test
  void thePerThreadStreamIsOfTheThreadThatHasWrappedIt() throws Exception {
    Thread owner = Thread.currentThread();
    DeviceStream theirs = CudaInterop.wrapStream(device, PER_THREAD);
    try (Held held = hold(theirs)) {
      boolean other =
          start(
                  () -> {
                    for (Runnable call :
                        new Runnable[] {
                          theirs::synchronize,
                          theirs::handle,
                          theirs::isCapturing,
                          () -> theirs.copy(seven, target),
                          () -> theirs.waitFor(event),
                          () -> event.record(theirs),
                          () -> CudaInterop.stream(theirs)
                        }) {
                      assertThatThrownBy(call::run)
                          .isInstanceOf(IllegalStateException.class)
                          .hasMessageEndingWith(
                              String.format(
                                  Locale.ROOT,
                                  " was called by the thread %s on the default stream of the thread %s on GPU 0; every thread has another one",
                                  Thread.currentThread().getName(),
                                  owner.getName()));
                    }
                    try (DeviceStream another = CudaInterop.wrapStream(device, PER_THREAD)) {
                      another.copy(seven, target);
                      another.synchronize(); // does not wait for the owner's
                    }
                    theirs.close();
                    return true;
                  })
              .get(60, TimeUnit.SECONDS);
      assertThat(other).isTrue();
      assertThat(valueNow()).isEqualTo(7);
      held.letGo();
    }
    assertThatThrownBy(theirs::synchronize)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("synchronize was called on a closed stream");
  }

  /** It has none of its own, and does not stay on the thread that has. */
  @Test
  void thePerThreadStreamOfAVirtualThreadIsRefused() throws Exception {
    assumeTrue(Runtime.version().feature() >= 21, "this Java has no virtual threads");
    CompletableFuture<DeviceStream> wrapped = new CompletableFuture<>();
    Runnable wrap =
        () ->
            wrapped.completeAsync(() -> CudaInterop.wrapStream(device, PER_THREAD), Runnable::run);
    Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, wrap);
    assertThatThrownBy(() -> wrapped.get(60, TimeUnit.SECONDS))
        .hasCauseInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(
            "the default stream of a virtual thread cannot be wrapped, it is that of whichever platform thread runs it; create a stream");
  }

  @Test
  void whatIsNoEventOfAGpuIsRefusedByName() {
    HostDevice host = HostDevice.instance();
    refused(() -> CudaInterop.wrapEvent(host, foreign), "CudaInterop needs a GPU, not host");
    refused(
        () -> CudaInterop.wrapEvent(device, 0), "the handle of the event is 0, which is no event");
    refused(
        () -> CudaInterop.wrapEvent(device, new CUevent()),
        "the handle of the event is 0, which is no event");
    try (DeviceEvent ofHost = host.createEvent()) {
      assertThat(ofHost.handle()).isZero();
      refused(() -> CudaInterop.event(ofHost), "CudaInterop needs a GPU, not host");
    }
    event.close();
    assertThatThrownBy(() -> CudaInterop.event(event))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("CudaInterop.event was called with a closed event");
  }

  private static void refused(Runnable call, String message) {
    assertThatThrownBy(call::run)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(message);
  }

  private static boolean synchronize(DeviceEvent one) {
    one.synchronize();
    return true;
  }

  /** The target's value, read on a stream that nothing holds. */
  private int valueNow() {
    int[] value = new int[1];
    target.copyTo(value, aside);
    return value[0];
  }

  private static <T> Future<T> start(Callable<T> work) {
    FutureTask<T> task = new FutureTask<>(work);
    Thread thread = new Thread(task, "started by a test");
    thread.setDaemon(true);
    thread.start();
    return task;
  }
}
