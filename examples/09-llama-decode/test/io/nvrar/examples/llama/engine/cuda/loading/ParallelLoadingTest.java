package io.nvrar.examples.llama.engine.cuda.loading;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.RandomTensors;
import io.nvrar.examples.llama.weights.RankTensor;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.ReferenceModel;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Loading without a GPU: the copies go to arrays. */
final class ParallelLoadingTest {
  private final AtomicInteger open = new AtomicInteger();
  private final AtomicBoolean usedClosed = new AtomicBoolean();

  @ParameterizedTest(name = "{0} by {1} threads in pieces of {2} bytes")
  @CsvSource({
    "model/tiny-english, 1, 4096",
    "model/tiny-english, 3, 4096",
    "test-models/qwen6, 2, 132",
    "test-models/linear6, 2, 60",
    "test-models/seeded64, 2, 4100",
    "test-models/seeded64, 7, 8388608"
  })
  void theBytesAreTheSameForAnyNumberOfThreads(String name, int threads, int pieceBytes)
      throws IOException {
    ReferenceModel model = ReferenceModel.of(name);
    try (TensorSource source = model.tensors()) {
      for (FloatFormat format : List.of(FloatFormat.BF16, FloatFormat.F32)) {
        ParallelLoading<byte[]> loading = new ParallelLoading<>(source, pieceBytes);
        List<byte[]> loaded = new ArrayList<>();
        List<byte[]> expected = new ArrayList<>();
        for (RankTensor tensor : tensors(model.config())) {
          ByteBuffer whole = ByteBuffer.allocate((int) tensor.bytes(format));
          tensor.read(source, format, 0, whole);
          expected.add(whole.array());
          loaded.add(new byte[whole.capacity()]);
          loading.add(tensor, format, loaded.get(loaded.size() - 1));
        }
        loading.run(threads, ArrayLane::new);
        for (int i = 0; i < loaded.size(); i++) {
          assertThat(Arrays.equals(loaded.get(i), expected.get(i))).as("tensor %d", i).isTrue();
        }
        assertThat(open).hasValue(0);
      }
    }
  }

  @Test
  void aFailureEndsAllThreadsAndIsThrown() throws IOException {
    LlamaConfig config = ReferenceModel.of("test-models/seeded64").config();
    AtomicLong reads = new AtomicLong();
    TensorSource failing =
        new RandomTensors(
            config,
            1,
            bytes -> {
              if (reads.incrementAndGet() == 20) {
                throw new ModelException("The disk has failed.");
              }
            });
    ParallelLoading<byte[]> loading = new ParallelLoading<>(failing, 512);
    for (RankTensor tensor : tensors(config)) {
      loading.add(tensor, FloatFormat.BF16, new byte[(int) tensor.bytes(FloatFormat.BF16)]);
    }
    assertThatThrownBy(() -> loading.run(3, ArrayLane::new))
        .isInstanceOf(ModelException.class)
        .hasMessage("The disk has failed.");
    assertThat(open).hasValue(0);
    assertThat(reads.get()).isLessThan(30);
  }

  @Test
  void aLaneThatCannotBeMadeClosesTheOthers() {
    ParallelLoading<byte[]> loading =
        new ParallelLoading<>(new RandomTensors(config(), 1, bytes -> {}), 512);
    assertThatThrownBy(
            () ->
                loading.run(
                    3,
                    () -> {
                      if (open.get() == 2) {
                        throw new IllegalStateException("no pinned memory");
                      }
                      return new ArrayLane();
                    }))
        .hasMessage("no pinned memory");
    assertThat(open).hasValue(0);
  }

  @Test
  void aThreadThatCannotBeStartedClosesNoLaneUnderTheOthers() throws InterruptedException {
    CountDownLatch refused = new CountDownLatch(1);
    ParallelLoading<byte[]> loading =
        new ParallelLoading<>(new RandomTensors(config(), 1, bytes -> {}), 512);
    for (RankTensor tensor : tensors(config())) {
      loading.add(tensor, FloatFormat.BF16, new byte[(int) tensor.bytes(FloatFormat.BF16)]);
    }
    AtomicInteger started = new AtomicInteger();
    AtomicReference<Thread> first = new AtomicReference<>();
    ThreadFactory one =
        work -> {
          if (started.getAndIncrement() > 0) {
            refused.countDown();
            throw new OutOfMemoryError("unable to create native thread");
          }
          first.set(
              new Thread(
                  () -> {
                    awaitIt(refused);
                    work.run();
                  }));
          return first.get();
        };
    assertThatThrownBy(() -> loading.run(3, ArrayLane::new, one))
        .isInstanceOf(OutOfMemoryError.class)
        .hasMessage("unable to create native thread");
    assertThat(open).hasValue(0);
    Objects.requireNonNull(first.get()).join();
    assertThat(usedClosed).isFalse();
  }

  private static void awaitIt(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void ranksOfAHostShareItsCores() {
    assertThat(ParallelLoading.threads(128, 4)).isEqualTo(8);
    assertThat(ParallelLoading.threads(16, 4)).isEqualTo(4);
    assertThat(ParallelLoading.threads(2, 8)).isEqualTo(2);
  }

  private static LlamaConfig config() {
    try {
      return ReferenceModel.of("test-models/seeded64").config();
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static List<RankTensor> tensors(LlamaConfig config) {
    return RankTensors.of(config, Shard.of(config, 0, 2)).inLoadingOrder();
  }

  /** Copies the piece before the last one only now, as a GPU may that lags behind. */
  private final class ArrayLane implements ParallelLoading.Lane<byte[]> {
    private final ByteBuffer[] slots = {ByteBuffer.allocate(0), ByteBuffer.allocate(0)};
    private final Runnable[] copies = {() -> {}, () -> {}};
    private int at;
    private volatile boolean closed;

    ArrayLane() {
      open.incrementAndGet();
    }

    @Override
    public ByteBuffer next(ParallelLoading.Piece<byte[]> piece) {
      if (closed) {
        usedClosed.set(true);
      }
      at = 1 - at;
      copies[at].run();
      copies[at] = () -> {};
      slots[at] = ByteBuffer.allocate(piece.bytes());
      return slots[at];
    }

    @Override
    public void copy(ParallelLoading.Piece<byte[]> piece) {
      ByteBuffer filled = slots[at];
      copies[at] = () -> filled.flip().get(piece.target(), (int) piece.offset(), piece.bytes());
    }

    @Override
    public void finish() {
      copies[1 - at].run();
      copies[at].run();
    }

    @Override
    public void close() {
      closed = true;
      open.decrementAndGet();
    }
  }
}
