package io.nvrar.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.Device;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceEvent;
import io.nvrar.DeviceGraph;
import io.nvrar.DeviceMemoryException;
import io.nvrar.DeviceStream;
import io.nvrar.HalfPrecision;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What a program may expect of every device, whichever it is. */
public abstract class DeviceContract {
  /** More than a device copies in one piece. */
  private static final int MANY = 3 << 20;

  /** The device under test. */
  protected abstract Device device();

  @ParameterizedTest
  @EnumSource(DataType.class)
  void bytesOfEveryTypeComeBackAsTheyWere(DataType type) {
    byte[] values = new byte[1000 * type.sizeBytes()];
    new Random(1).nextBytes(values);
    try (DeviceBuffer buffer = device().allocate(type, 1000)) {
      assertThat(buffer.address() % 256).isZero();
      assertThat(buffer.device()).isSameAs(device());
      ByteBuffer source = ByteBuffer.wrap(values);
      buffer.copyFrom(source);
      assertThat(source.hasRemaining()).isFalse();
      ByteBuffer heap = ByteBuffer.allocate(values.length);
      ByteBuffer direct = ByteBuffer.allocateDirect(values.length);
      buffer.copyTo(heap);
      buffer.copyTo(direct);
      assertThat(heap.array()).isEqualTo(values);
      assertThat(direct.flip()).isEqualTo(ByteBuffer.wrap(values));
    }
  }

  @Test
  void arraysOfEveryJavaTypeComeBackAlsoThroughSlices() {
    int[] ints = new Random(2).ints(MANY).toArray();
    long[] longs = new Random(3).longs(MANY).toArray();
    double[] doubles = new Random(4).doubles(MANY).toArray();
    byte[] bytes = new byte[2 * MANY];
    new Random(5).nextBytes(bytes);
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, MANY + 3)) {
      buffer.slice(3, MANY).copyFrom(ints);
      int[] back = new int[MANY];
      buffer.slice(3, MANY).copyTo(back);
      assertThat(back).isEqualTo(ints);
    }
    try (DeviceBuffer buffer = device().allocate(DataType.INT64, MANY)) {
      buffer.copyFrom(longs);
      long[] back = new long[MANY];
      buffer.copyTo(back);
      assertThat(back).isEqualTo(longs);
    }
    try (DeviceBuffer buffer = device().allocate(DataType.FLOAT64, MANY)) {
      buffer.copyFrom(doubles);
      double[] back = new double[MANY];
      buffer.copyTo(back);
      assertThat(back).isEqualTo(doubles);
    }
    try (DeviceBuffer buffer = device().allocate(DataType.UINT8, bytes.length)) {
      buffer.copyFrom(bytes);
      byte[] back = new byte[bytes.length];
      buffer.copyTo(back);
      assertThat(back).isEqualTo(bytes);
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT16", "BFLOAT16", "FLOAT32"})
  void floatsAreRoundedToTheTypeOfTheBufferInEveryPieceOfALargeCopy(DataType type) {
    float[] values = new float[MANY];
    Random random = new Random(6);
    for (int i = 0; i < values.length; i++) {
      values[i] = (random.nextFloat() - 0.5f) * 1000;
    }
    try (DeviceBuffer buffer = device().allocate(type, MANY + 10)) {
      buffer.copyFrom(values, 7, 10, MANY - 7);
      float[] back = new float[MANY];
      buffer.copyTo(10, back, 7, MANY - 7);
      for (int i = 7; i < MANY; i++) {
        if (back[i] != rounded(type, values[i])) {
          assertThat(back[i]).as("element %d", i).isEqualTo(rounded(type, values[i]));
        }
      }
    }
  }

  @Test
  void aCopyThatDoesNotFitOrHasAnotherTypeSaysBothSidesAndCopiesNothing() {
    try (DeviceBuffer buffer = device().allocate(DataType.INT32, 2)) {
      buffer.copyFrom(new int[] {5, 6});
      assertThatThrownBy(() -> buffer.copyFrom(new int[] {1, 2, 3}))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the copy of 3 elements from element 0 does not fit in the buffer int32[2]");
      assertThatThrownBy(() -> buffer.copyFrom(new float[] {1}))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("copyFrom(float[]) was called on the buffer int32[2]; copy a int[]");
      assertThatThrownBy(() -> buffer.copyFrom(ByteBuffer.allocate(9)))
          .hasMessage("the copy of 9 bytes does not fit in the buffer int32[2] of 8 bytes");
      assertThatThrownBy(() -> buffer.slice(1, 2)).isInstanceOf(IllegalArgumentException.class);
      assertThat(ints(buffer)).containsExactly(5, 6);
    }
  }

  @Test
  void aBufferOfNothingIsOneThatNothingIsCopiedTo() {
    try (DeviceBuffer buffer = device().allocate(DataType.FLOAT32, 0);
        DeviceBuffer pinned = device().allocatePinned(DataType.FLOAT32, 0);
        DeviceStream stream = device().createStream()) {
      buffer.copyFrom(new float[0]);
      buffer.copyTo(ByteBuffer.allocate(0));
      stream.copy(pinned, buffer);
    }
    assertThatThrownBy(() -> device().allocate(DataType.FLOAT32, -1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("-1 elements");
  }

  @Test
  void aCountWhoseBytesCannotBeCountedIsTooLargeAndNotNegative() {
    assertThatThrownBy(() -> device().allocate(DataType.FLOAT64, 1L << 61))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "a buffer of 2305843009213693952 elements of 8 bytes is too large; its bytes, 2^63 or more, fit in no address space");
    assertThatThrownBy(() -> device().allocatePinned(DataType.INT64, Long.MAX_VALUE))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("a buffer of 9223372036854775807 elements of 8 bytes is too large");
  }

  @Test
  void aClosedBufferIsRefusedAndSoAreItsSlices() {
    DeviceBuffer buffer = device().allocate(DataType.INT32, 4);
    DeviceBuffer slice = buffer.slice(1, 2);
    buffer.close();
    buffer.close();
    assertThatThrownBy(buffer::address)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("the buffer int32[4] is closed");
    assertThatThrownBy(() -> slice.copyFrom(new int[1]))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("the buffer that the slice int32[2] was taken from is closed");
    try (DeviceStream stream = device().createStream();
        DeviceBuffer open = device().allocate(DataType.INT32, 4)) {
      assertThatThrownBy(() -> stream.copy(slice, open)).isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void memoryThatIsNotThereIsAnExceptionThatNamesTheBuffer() {
    assertThatThrownBy(() -> device().allocate(DataType.FLOAT32, 1L << 46))
        .isInstanceOf(DeviceMemoryException.class)
        .hasMessageContaining("float32[70368744177664], 281474976710656 bytes");
  }

  @Test
  void aStreamCopiesBetweenPinnedMemoryAndTheDeviceInItsOrder() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer in = device().allocatePinned(DataType.BFLOAT16, MANY);
        DeviceBuffer first = device().allocate(DataType.BFLOAT16, MANY);
        DeviceBuffer second = device().allocate(DataType.BFLOAT16, MANY + 1);
        DeviceBuffer out = device().allocatePinned(DataType.BFLOAT16, MANY)) {
      float[] values = new float[MANY];
      for (int i = 0; i < MANY; i++) {
        values[i] = i % 251;
      }
      in.copyFrom(values);
      stream.copy(in, first);
      stream.copy(first, second);
      stream.copy(second.slice(0, MANY), out);
      stream.synchronize();
      float[] back = new float[MANY];
      out.copyTo(back);
      assertThat(back).isEqualTo(values);
    }
  }

  @Test
  void aBlockingCopyWaitsForWhatStreamsWereGivenBefore() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer a = device().allocate(DataType.INT32, MANY);
        DeviceBuffer b = device().allocate(DataType.INT32, MANY)) {
      for (int round = 0; round < 20; round++) {
        int[] values = new int[MANY];
        values[MANY - 1] = round;
        a.copyFrom(values);
        for (int i = 0; i < 20; i++) {
          stream.copy(a, b);
          stream.copy(b, a);
        }
        stream.copy(a, b);
        int[] last = new int[1];
        b.slice(MANY - 1, 1).copyTo(last);
        assertThat(last[0]).isEqualTo(round);
      }
    }
  }

  @Test
  void arraysOfEveryJavaTypeComeBackInTheOrderOfAStream() {
    int[] ints = new Random(12).ints(MANY).toArray();
    long[] longs = new Random(13).longs(MANY).toArray();
    double[] doubles = new Random(14).doubles(MANY).toArray();
    byte[] bytes = new byte[2 * MANY + 1];
    new Random(15).nextBytes(bytes);
    float[] floats = new float[MANY];
    for (int i = 0; i < MANY; i++) {
      floats[i] = i % 251;
    }
    try (DeviceStream stream = device().createStream();
        DeviceBuffer i32 = device().allocate(DataType.INT32, MANY + 3);
        DeviceBuffer i64 = device().allocate(DataType.INT64, MANY);
        DeviceBuffer f64 = device().allocate(DataType.FLOAT64, MANY);
        DeviceBuffer u8 = device().allocate(DataType.UINT8, bytes.length);
        DeviceBuffer bf16 = device().allocate(DataType.BFLOAT16, MANY)) {
      i32.slice(3, MANY).copyFrom(ints, stream);
      i64.copyFrom(longs, stream);
      f64.copyFrom(doubles, stream);
      u8.copyFrom(bytes, stream);
      bf16.copyFrom(floats, 5, 2, MANY - 5, stream);
      int[] intsBack = new int[MANY];
      i32.slice(3, MANY).copyTo(intsBack, stream);
      assertThat(intsBack).isEqualTo(ints);
      long[] longsBack = new long[MANY];
      i64.copyTo(longsBack, stream);
      assertThat(longsBack).isEqualTo(longs);
      double[] doublesBack = new double[MANY];
      f64.copyTo(doublesBack, stream);
      assertThat(doublesBack).isEqualTo(doubles);
      byte[] bytesBack = new byte[bytes.length];
      u8.copyTo(bytesBack, stream);
      assertThat(bytesBack).isEqualTo(bytes);
      float[] floatsBack = new float[MANY];
      bf16.copyTo(2, floatsBack, 5, MANY - 5, stream);
      System.arraycopy(floats, 0, floatsBack, 0, 5);
      assertThat(floatsBack).isEqualTo(floats);
      ByteBuffer source = ByteBuffer.wrap(bytes, 1, 2 * MANY);
      ByteBuffer target = ByteBuffer.allocateDirect(2 * MANY);
      u8.copyFrom(source, stream);
      u8.copyTo(target, stream);
      assertThat(source.hasRemaining()).isFalse();
      assertThat(target.flip()).isEqualTo(ByteBuffer.wrap(bytes, 1, 2 * MANY));
    }
  }

  @Test
  void aCopyOnAStreamComesAfterWhatItHoldsAndBeforeWhatFollows() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer a = device().allocate(DataType.INT32, MANY);
        DeviceBuffer b = device().allocate(DataType.INT32, MANY);
        DeviceBuffer c = device().allocate(DataType.INT32, MANY)) {
      int[] values = new int[MANY];
      int[] first = new int[MANY];
      int[] second = new int[MANY];
      for (int round = 0; round < 5; round++) {
        values[MANY - 1] = round + 1;
        a.copyFrom(values, stream);
        stream.copy(a, b);
        values[MANY - 1] = -round - 1; // what was copied is a snapshot
        a.copyFrom(values, stream);
        stream.copy(a, c);
        values[MANY - 1] = 0;
        b.copyTo(first, stream);
        c.copyTo(second, stream);
        assertThat(first[MANY - 1]).isEqualTo(round + 1);
        assertThat(second[MANY - 1]).isEqualTo(-round - 1);
      }
    }
  }

  @Test
  void aCopyToOrFromJavaIsNotRecorded() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer target = buffer(0);
        DeviceGraph graph =
            device()
                .capture(
                    stream,
                    () -> {
                      assertThatThrownBy(() -> target.copyFrom(new int[] {2}, stream))
                          .isInstanceOf(IllegalStateException.class)
                          .hasMessage(
                              "copyFrom was called on a stream that is capturing; what it records runs when the graph is launched, so record DeviceStream.copy with a buffer of allocatePinned instead");
                      assertThatThrownBy(() -> target.copyTo(new int[1], stream))
                          .isInstanceOf(IllegalStateException.class)
                          .hasMessageStartingWith(
                              "copyTo was called on a stream that is capturing");
                      stream.copy(one, target);
                    })) {
      assertThat(ints(target)).containsExactly(0);
      graph.launch(stream);
      assertThat(ints(target)).containsExactly(1);
    }
  }

  @Test
  void aCopyOnAClosedStreamOrOfWhatDoesNotFitIsRefused() {
    DeviceStream stream = device().createStream();
    try (DeviceBuffer buffer = buffer(3)) {
      assertThatThrownBy(() -> buffer.copyFrom(new int[2], stream))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the copy of 2 elements from element 0 does not fit in the buffer int32[1]");
      assertThatThrownBy(() -> buffer.copyTo(new float[1], stream))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("copyTo(float[]) was called on the buffer int32[1]; copy a int[]");
      stream.close();
      assertThatThrownBy(() -> buffer.copyFrom(new int[1], stream))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("copyFrom was called on a closed stream");
      assertThatThrownBy(() -> buffer.copyTo(new int[1], stream))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("copyTo was called on a closed stream");
      assertThat(ints(buffer)).containsExactly(3);
    }
  }

  @Test
  void threadsCopyOnTheirStreamsAtOnce() throws Exception {
    List<Callable<Void>> copies = new ArrayList<>();
    for (int thread = 0; thread < 4; thread++) {
      int value = thread;
      copies.add(() -> copyManyTimes(value));
    }
    ExecutorService executor = Executors.newFixedThreadPool(4);
    try {
      for (Future<Void> copy : executor.invokeAll(copies, 60, TimeUnit.SECONDS)) {
        copy.get();
      }
    } finally {
      executor.shutdownNow();
    }
  }

  private Void copyManyTimes(int value) {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer buffer = device().allocate(DataType.INT32, 1000)) {
      int[] values = new int[1000];
      int[] back = new int[1000];
      for (int i = 0; i < 300; i++) {
        Arrays.fill(values, 1000 * value + i);
        buffer.copyFrom(values, stream);
        Arrays.fill(values, -1);
        buffer.copyTo(back, stream);
        assertThat(back).containsOnly(1000 * value + i);
      }
    }
    return null;
  }

  @Test
  void copiesOfAStreamThatDoNotFitSayBothBuffers() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer two = device().allocate(DataType.INT32, 2);
        DeviceBuffer three = device().allocatePinned(DataType.INT32, 3);
        DeviceBuffer floats = device().allocate(DataType.FLOAT32, 2)) {
      assertThatThrownBy(() -> stream.copy(three, two))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the buffer int32[3] cannot be copied to the buffer int32[2]");
      assertThatThrownBy(() -> stream.copy(two, floats))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the buffer int32[2] cannot be copied to the buffer float32[2]");
    }
  }

  @Test
  void aCaptureRunsNothingAndItsGraphRunsAllOfItEveryTime() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer source = device().allocatePinned(DataType.INT32, 2);
        DeviceBuffer middle = device().allocate(DataType.INT32, 2);
        DeviceBuffer target = device().allocate(DataType.INT32, 2)) {
      source.copyFrom(new int[] {1, 2});
      target.copyFrom(new int[] {0, 0});
      try (DeviceGraph graph =
          device()
              .capture(
                  stream,
                  () -> {
                    assertThat(stream.isCapturing()).isTrue();
                    stream.copy(source, middle);
                    stream.copy(middle, target);
                  })) {
        assertThat(stream.isCapturing()).isFalse();
        assertThat(ints(target)).containsExactly(0, 0);
        for (int i = 10; i < 13; i++) {
          source.copyFrom(new int[] {i, i + 1});
          graph.launch(stream);
          assertThat(ints(target)).containsExactly(i, i + 1);
        }
      }
    }
  }

  @Test
  void aRecaptureTakesThePlaceOfWhatWasRecorded() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer two = buffer(2);
        DeviceBuffer target = buffer(0);
        DeviceGraph graph = device().capture(stream, () -> stream.copy(one, target))) {
      assertThatThrownBy(
              () ->
                  graph.recapture(
                      stream,
                      () -> {
                        throw new UnsupportedOperationException("half way");
                      }))
          .hasMessage("half way");
      graph.launch(stream);
      assertThat(ints(target)).containsExactly(1);
      graph.recapture(stream, () -> stream.copy(two, target));
      assertThat(ints(target)).containsExactly(1);
      graph.launch(stream);
      assertThat(ints(target)).containsExactly(2);
    }
  }

  @Test
  void aCaptureThatFailsLeavesAStreamThatWorks() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer target = buffer(0)) {
      assertThatThrownBy(
              () ->
                  device()
                      .capture(
                          stream,
                          () -> {
                            stream.copy(one, target);
                            throw new UnsupportedOperationException("half way");
                          }))
          .isInstanceOf(UnsupportedOperationException.class)
          .hasMessage("half way");
      assertThat(stream.isCapturing()).isFalse();
      assertThatThrownBy(
              () -> device().capture(stream, () -> device().capture(stream, () -> {}).close()))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "capture was called on a stream that is already capturing; captures of one stream do not nest");
      assertThatThrownBy(() -> device().capture(stream, stream::synchronize))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith("synchronize was called on a stream that is capturing");
      stream.copy(one, target);
      stream.synchronize();
      assertThat(ints(target)).containsExactly(1);
    }
  }

  @Test
  void aStreamThatIsClosedWhileItCapturesDropsTheCapture() {
    DeviceStream stream = device().createStream();
    assertThatThrownBy(() -> device().capture(stream, stream::close))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "the stream was closed while it was capturing; what it had recorded is dropped");
    stream.close();
    assertThatThrownBy(stream::synchronize)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("synchronize was called on a closed stream");
    assertThatThrownBy(() -> device().capture(stream, () -> {}))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("capture was called on a closed stream");
  }

  @Test
  void aClosedGraphIsRefused() {
    try (DeviceStream stream = device().createStream()) {
      DeviceGraph graph = device().capture(stream, () -> {});
      graph.close();
      graph.close();
      assertThatThrownBy(() -> graph.launch(stream))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("launch was called on a closed graph");
      assertThatThrownBy(() -> graph.recapture(stream, () -> {}))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("recapture was called on a closed graph");
    }
  }

  @Test
  void whatIsSetUpInsideACaptureDoesNotBreakIt() {
    try (DeviceStream stream = device().createStream();
        DeviceBuffer source = buffer(3);
        DeviceBuffer target = buffer(0)) {
      DeviceBuffer[] made = new DeviceBuffer[1];
      try (DeviceGraph graph =
          device()
              .capture(
                  stream,
                  () -> {
                    made[0] = device().allocate(DataType.INT32, 1);
                    made[0].copyFrom(new int[] {9});
                    assertThat(ints(made[0])).containsExactly(9);
                    stream.copy(source, target);
                  })) {
        graph.launch(stream);
        assertThat(ints(target)).containsExactly(3);
      }
      made[0].close();
    }
  }

  @Test
  void eventsCountTheTimeBetweenThemAndOrderStreams() {
    try (DeviceStream stream = device().createStream();
        DeviceStream other = device().createStream();
        DeviceEvent start = device().createEvent();
        DeviceEvent end = device().createEvent();
        DeviceBuffer one = buffer(1);
        DeviceBuffer middle = buffer(0);
        DeviceBuffer target = buffer(0)) {
      assertThat(start.isDone()).isTrue();
      start.synchronize();
      other.waitFor(start);
      assertThatThrownBy(() -> end.elapsedSince(start))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("elapsedSince was called on an event that was never recorded");
      start.record(stream);
      stream.copy(one, middle);
      end.record(stream);
      other.waitFor(end);
      other.copy(middle, target);
      other.synchronize();
      end.synchronize();
      assertThat(end.elapsedSince(start)).isBetween(Duration.ZERO, Duration.ofSeconds(60));
      assertThat(end.isDone()).isTrue();
      assertThat(ints(target)).containsExactly(1);
    }
  }

  @Test
  void aStageCompletesWhenItsEventHasHappened() throws Exception {
    DeviceEvent event = device().createEvent();
    try (DeviceStream stream = device().createStream();
        DeviceBuffer one = buffer(1);
        DeviceBuffer target = buffer(0)) {
      assertThat(event.whenDone().toCompletableFuture()).isCompleted();
      stream.copy(one, target);
      event.record(stream);
      CompletableFuture<int[]> result =
          event.whenDone().thenApply(done -> ints(target)).toCompletableFuture();
      assertThat(result.get(60, TimeUnit.SECONDS)).containsExactly(1);
      device().capture(stream, () -> event.record(stream)).close();
      assertThatThrownBy(event::whenDone)
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "whenDone was called on an event that was recorded while its stream captured");
      event.record(stream);
      assertThat(event.whenDone().toCompletableFuture().get(60, TimeUnit.SECONDS)).isNull();
    }
    event.close();
    assertThatThrownBy(event::whenDone)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("whenDone was called with a closed event");
  }

  @Test
  void anEventOfACaptureCannotBeWaitedForFromOutsideUntilItIsRecordedAgain() {
    DeviceEvent event = device().createEvent();
    try (DeviceStream stream = device().createStream()) {
      device().capture(stream, () -> event.record(stream)).close();
      for (Runnable call : List.<Runnable>of(event::isDone, event::synchronize)) {
        assertThatThrownBy(call::run)
            .isInstanceOf(IllegalStateException.class)
            .hasMessageEndingWith(
                "was called on an event that was recorded while its stream captured");
      }
      event.record(stream);
      event.synchronize();
      event.close();
      event.close();
      assertThatThrownBy(() -> event.record(stream))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage("record was called with a closed event");
      assertThatThrownBy(() -> stream.waitFor(event)).isInstanceOf(IllegalStateException.class);
    }
  }

  /** A buffer of one integer. */
  protected final DeviceBuffer buffer(int value) {
    DeviceBuffer buffer = device().allocate(DataType.INT32, 1);
    buffer.copyFrom(new int[] {value});
    return buffer;
  }

  /** All elements. */
  protected static int[] ints(DeviceBuffer buffer) {
    int[] values = new int[(int) buffer.count()];
    buffer.copyTo(values);
    return values;
  }

  private static float rounded(DataType type, float value) {
    return switch (type) {
      case FLOAT16 -> HalfPrecision.float16ToFloat(HalfPrecision.floatToFloat16(value));
      case BFLOAT16 -> HalfPrecision.bfloat16ToFloat(HalfPrecision.floatToBfloat16(value));
      default -> value;
    };
  }
}
