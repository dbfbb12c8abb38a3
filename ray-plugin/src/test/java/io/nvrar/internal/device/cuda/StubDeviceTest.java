package io.nvrar.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveException;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceStream;
import io.nvrar.internal.device.memory.Lease;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.JCudaDriver;
import org.awaitility.Awaitility;
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
    return StubDriver.hold(stream);
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
  void aStageWhoseFailureIsNotExplainedYetHoldsUpNoOther() throws Exception {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceEvent early = device().createEvent();
        DeviceEvent late = device().createEvent();
        Held held = hold(other)) {
      calls.callOn(stream);
      calls.isUnexplained = true;
      early.record(stream);
      late.record(other);
      CompletableFuture<Void> ofEarly = early.whenDone().toCompletableFuture();
      CompletableFuture<Void> ofLate = late.whenDone().toCompletableFuture();
      held.letGo();
      assertThat(ofLate.get(2, TimeUnit.SECONDS)).isNull();
      assertThat(ofEarly).isNotDone();
      calls.failure = new CollectiveException("rank 1 is lost");
      calls.isUnexplained = false;
      assertThatThrownBy(() -> ofEarly.get(60, TimeUnit.SECONDS)).cause().isSameAs(calls.failure);
    }
  }

  @Test
  void aStageFailsThoughTheStreamHasForgottenItsCalls() throws Exception {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceEvent event = device().createEvent()) {
      calls.callOn(stream);
      calls.isUnexplained = true;
      calls.over = true;
      event.record(stream);
      CompletableFuture<Void> stage = event.whenDone().toCompletableFuture();
      CompletableFuture<Void> other = CompletableFuture.runAsync(stream::synchronize);
      Awaitility.await()
          .atMost(Duration.ofSeconds(10))
          .until(() -> ((CudaStream) stream).carried().length == 0);
      assertThatThrownBy(() -> stage.get(100, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
      calls.failure = new CollectiveException("rank 1 is lost");
      calls.isUnexplained = false;
      assertThatThrownBy(() -> stage.get(60, TimeUnit.SECONDS)).cause().isSameAs(calls.failure);
      assertThatThrownBy(() -> other.get(60, TimeUnit.SECONDS)).cause().isSameAs(calls.failure);
    }
  }

  @Test
  void anErrorIsOfOneStageAndTheOthersAreCompletedOnce() throws Exception {
    RecordedCalls calls = new RecordedCalls();
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream()) {
      long living = StubDriver.living();
      try (DeviceEvent before = device().createEvent();
          DeviceEvent broken = device().createEvent();
          DeviceEvent after = device().createEvent();
          Held held = hold(stream);
          Held otherHeld = hold(other)) {
        before.record(stream);
        calls.callOn(stream);
        broken.record(stream);
        after.record(other);
        CompletableFuture<Void> first = before.whenDone().toCompletableFuture();
        CompletableFuture<Void> second = broken.whenDone().toCompletableFuture();
        CompletableFuture<Void> third = after.whenDone().toCompletableFuture();
        calls.error = new AssertionError("broken");
        held.letGo();
        for (CompletableFuture<Void> one : List.of(first, second)) {
          assertThatThrownBy(() -> one.get(60, TimeUnit.SECONDS)).cause().isSameAs(calls.error);
        }
        assertThat(third).isNotDone();
        otherHeld.letGo();
        assertThat(third.get(60, TimeUnit.SECONDS)).isNull();
        calls.error = null;
        assertThat(before.isDone()).as("is there as long as it is open").isTrue();
      }
      assertThat(StubDriver.living()).isEqualTo(living);
    }
  }

  @Test
  void aThreadThatCannotBeStartedFailsItsOwnStageAndNoLaterOne() throws Exception {
    AtomicBoolean hasRoom = new AtomicBoolean();
    EventWatch watch =
        new EventWatch(
            ((CudaDevice) device()).context(),
            work ->
                new Thread(work, "nvrar-events-test") {
                  @Override
                  public synchronized void start() {
                    if (!hasRoom.get()) {
                      throw new OutOfMemoryError("unable to create native thread");
                    }
                    super.start();
                  }
                });
    CudaStream stream = (CudaStream) device().createStream();
    CUevent event = new CUevent();
    JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DEFAULT);
    try (stream;
        Held held = hold(stream)) {
      AtomicInteger freed = new AtomicInteger();
      Lease lease = new Lease(freed::incrementAndGet);
      stream.submit("record", "cuEventRecord", on -> JCudaDriver.cuEventRecord(event, on));
      assertThat(lease.retain()).isTrue();
      assertThat(watch.watch(event, lease::release, stream.carried()).toCompletableFuture())
          .failsWithin(Duration.ofSeconds(60))
          .withThrowableThat()
          .havingCause()
          .isInstanceOf(IllegalStateException.class)
          .withMessage(
              "no thread can be started to complete the stages of GPU 0's events: unable to create native thread")
          .withCauseInstanceOf(OutOfMemoryError.class);
      hasRoom.set(true);
      assertThat(lease.retain()).isTrue();
      CompletableFuture<Void> next =
          watch.watch(event, lease::release, stream.carried()).toCompletableFuture();
      held.letGo();
      assertThat(next.get(60, TimeUnit.SECONDS)).isNull();
      lease.close();
      assertThat(freed).hasValue(1);
    } finally {
      JCudaDriver.cuEventDestroy(event);
    }
  }

  @Test
  void aBlockingCopyDoesNotMeetStreamsThatAreRetiredMeanwhile() throws Exception {
    AtomicBoolean over = new AtomicBoolean();
    Thread retiring =
        new Thread(
            () -> {
              while (!over.get()) {
                CudaStream stream = (CudaStream) device().createStream();
                stream.retire();
              }
            });
    retiring.start();
    try (DeviceBuffer buffer = buffer(0)) {
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(2);
      while (System.nanoTime() < end) {
        buffer.copyFrom(new int[] {1});
      }
    } finally {
      over.set(true);
      retiring.join();
    }
  }

  @Test
  void aStreamThatWasRetiredIsClosedForItsUserWhenHeClosesIt() {
    CudaStream stream = (CudaStream) device().createStream();
    stream.retire();
    stream.synchronize();
    stream.close();
    assertThatThrownBy(stream::synchronize)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("synchronize was called on a closed stream");
  }

  @Test
  void aStreamThatItsUserClosesWhileItIsRetiredIsClosedForHim() throws Exception {
    CudaStream stream = (CudaStream) device().createStream();
    AtomicBoolean dropping = new AtomicBoolean();
    FutureTask<?> use = task(() -> device().capture(stream, stream::close));
    FutureTask<?> retirement = task(stream::retire);
    Thread user = new Thread(use);
    Thread other = new Thread(retirement);
    // The user closes the stream while the other waits for it, and has not yet dropped what it has
    // captured when the other has waited.
    StubDriver.Before order =
        function -> {
          if (Thread.currentThread() == other && function.equals("cuStreamSynchronize")) {
            user.start();
            Awaitility.await().untilTrue(dropping);
          } else if (Thread.currentThread() == user && function.equals("cuStreamEndCapture")) {
            dropping.set(true);
            Awaitility.await().until(() -> !other.isAlive() || waitsFor(user, other));
          }
        };
    StubDriver.before(order);
    try {
      other.start();
      other.join();
      user.join();
    } finally {
      StubDriver.before(null);
      Reference.reachabilityFence(order);
    }
    assertThatThrownBy(use::get).hasMessageContaining("was closed while it was capturing");
    assertThatThrownBy(retirement::get).hasMessageContaining("cuStreamSynchronize failed");
    assertThatThrownBy(stream::synchronize)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("synchronize was called on a closed stream");
  }

  /** Whether a thread is blocked at a lock of another one, and not at any other lock. */
  private static boolean waitsFor(Thread owner, Thread blocked) {
    ThreadInfo info = ManagementFactory.getThreadMXBean().getThreadInfo(blocked.getId());
    return info != null && info.getLockOwnerId() == owner.getId();
  }

  private static FutureTask<?> task(Runnable work) {
    return new FutureTask<>(work, null);
  }

  @Test
  void aStreamKeepsNoGroupThatIsOverAndHasBeenHeardOf() throws Exception {
    try (DeviceStream stream = device().createStream()) {
      List<WeakReference<RecordedCalls>> gone = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        gone.add(new WeakReference<>(failAndEnd(stream)));
      }
      Awaitility.await()
          .untilAsserted(
              () -> {
                System.gc();
                assertThat(gone).allMatch(calls -> calls.get() == null);
              });
    }
  }

  private RecordedCalls failAndEnd(DeviceStream stream) {
    RecordedCalls calls = new RecordedCalls();
    calls.callOn(stream);
    calls.failure = new CollectiveException("rank 1 is lost");
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, 1)) {
      assertThatThrownBy(() -> buffer.copyFrom(new int[1])).isSameAs(calls.failure);
    }
    calls.over = true;
    assertThatThrownBy(stream::synchronize).isSameAs(calls.failure);
    stream.synchronize();
    return calls;
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
