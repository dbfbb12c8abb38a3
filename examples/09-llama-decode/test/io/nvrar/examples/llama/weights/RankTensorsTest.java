package io.nvrar.examples.llama.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class RankTensorsTest {
  // Surefire runs the tests in the module's directory.
  private static final Path MODELS = Path.of("test-models");

  // mha5 has a bias everywhere, the others none; gqa8 and llama3rope7 are tied.
  @ParameterizedTest
  @ValueSource(strings = {"gqa8", "llama3rope7", "mha5"})
  void theOnlyRankOfAWorldReadsAllThatTheFileHolds(String name) throws IOException {
    Path model = MODELS.resolve(name);
    LlamaConfig config = LlamaConfig.read(model);
    try (Checkpoint checkpoint = Checkpoint.open(model)) {
      assertThat(RankTensors.of(config, Shard.of(config, 0, 1)).sourceBytes(checkpoint))
          .isEqualTo(tensorBytes(model.resolve("model.safetensors")));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"gqa8", "linear6", "llama3rope7", "mha5"})
  void tensorsHaveTheNumbersOfTheCpuEnginesWeightsOnEveryRank(String name) {
    Path model = MODELS.resolve(name);
    LlamaConfig config = LlamaConfig.read(model);
    for (int worldSize = 1; worldSize <= 8; worldSize++) {
      if (config.heads() % worldSize == 0) {
        for (int rank = 0; rank < worldSize; rank++) {
          assertSameNumbers(model, config, Shard.of(config, rank, worldSize));
        }
      }
    }
  }

  private static void assertSameNumbers(Path model, LlamaConfig config, Shard shard) {
    RankTensors tensors = RankTensors.of(config, shard);
    try (Checkpoint checkpoint = Checkpoint.open(model)) {
      LlamaWeights weights = LlamaWeights.read(checkpoint, config, shard);
      for (int i = 0; i < config.layers(); i++) {
        LlamaWeights.Layer layer = weights.layers().get(i);
        RankTensors.Layer raw = tensors.layers().get(i);
        assertMatrix(checkpoint, raw.queryKeyValue(), layer.queryKeyValue().weight());
        assertMatrix(checkpoint, raw.attentionOutput(), layer.attentionOutput().weight());
        assertMatrix(checkpoint, raw.gateUp(), layer.gateUp().weight());
        assertMatrix(checkpoint, raw.down(), layer.down().weight());
        assertThat(floats(checkpoint, raw.mlpNorm())).isEqualTo(layer.mlpNorm().numbers());
        if (raw.queryKeyValueBias() != null) {
          assertThat(floats(checkpoint, raw.queryKeyValueBias()))
              .isEqualTo(layer.queryKeyValue().bias());
        }
      }
      assertMatrix(checkpoint, tensors.embedding(), weights.embedding());
      assertMatrix(checkpoint, tensors.head(), weights.head());
    }
  }

  private static void assertMatrix(TensorSource source, RankTensor tensor, float[][] transposed) {
    float[] numbers = floats(source, tensor);
    assertThat(transposed.length).isEqualTo(tensor.columns());
    for (int row = 0; row < tensor.rows(); row++) {
      for (int column = 0; column < tensor.columns(); column++) {
        if (numbers[row * tensor.columns() + column] != transposed[column][row]) {
          throw new AssertionError(
              String.format(Locale.ROOT, "%s differs at [%d][%d]", tensor, row, column));
        }
      }
    }
  }

  private static float[] floats(TensorSource source, RankTensor tensor) {
    ByteBuffer bytes = buffer((int) tensor.bytes(FloatFormat.F32));
    tensor.read(source, FloatFormat.F32, 0, bytes);
    assertThat(bytes.hasRemaining()).isFalse();
    float[] numbers = new float[(int) tensor.count()];
    bytes.flip().asFloatBuffer().get(numbers);
    return numbers;
  }

  @Test
  void piecesOfAnySizeReadByAnyThreadMakeTheSameTensor() throws Exception {
    Path model = MODELS.resolve("linear6");
    LlamaConfig config = LlamaConfig.read(model);
    RankTensors tensors = RankTensors.of(config, Shard.of(config, 1, 3));
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try (Checkpoint checkpoint = Checkpoint.open(model)) {
      FloatFormat format = tensors.matrixFormat(checkpoint);
      assertThat(format).isEqualTo(FloatFormat.BF16);
      for (RankTensor tensor : tensors.inLoadingOrder()) {
        ByteBuffer whole = buffer((int) tensor.bytes(format));
        tensor.read(checkpoint, format, 0, whole);
        whole.flip();
        for (int step : new int[] {2, 38, 1000, 4096}) {
          ByteBuffer joined = buffer(whole.capacity());
          List<Future<?>> running = new ArrayList<>();
          for (int at = 0; at < whole.capacity(); at += step) {
            int offset = at;
            int count = Math.min(step, whole.capacity() - at);
            ByteBuffer piece = joined.slice(at, count);
            running.add(threads.submit(() -> tensor.read(checkpoint, format, offset, piece)));
          }
          for (Future<?> piece : running) {
            piece.get();
          }
          assertThat(joined).as("%s in pieces of %d", tensor, step).isEqualTo(whole);
        }
      }
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void whatIsReadOutsideOfATensorOrNotInWholeNumbersIsRefused() {
    Path model = MODELS.resolve("mha5");
    LlamaConfig config = LlamaConfig.read(model);
    RankTensor norm = RankTensors.of(config, Shard.of(config, 0, 5)).finalNorm();
    try (Checkpoint checkpoint = Checkpoint.open(model)) {
      assertThatThrownBy(() -> norm.read(checkpoint, FloatFormat.F32, 4, buffer(240)))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> norm.read(checkpoint, FloatFormat.F32, 2, buffer(4)))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void theBytesOnADeviceFollowFromTheFormatOfEachKind() {
    LlamaConfig config = LlamaConfig.read(MODELS.resolve("mha5"));
    RankTensors tensors = RankTensors.of(config, Shard.of(config, 0, 1));
    long norms = 5 * 60;
    long biases = 2 * (3 * 60 + 60 + 2 * 83 + 60);
    long matrices = tensors.count() - norms - biases;
    assertThat(tensors.bytes(FloatFormat.BF16, FloatFormat.F16, FloatFormat.F32))
        .isEqualTo(2 * matrices + 2 * norms + 4 * biases);
    Set<String> names =
        tensors.inLoadingOrder().stream().map(RankTensor::name).collect(Collectors.toSet());
    assertThat(names).hasSameSizeAs(tensors.inLoadingOrder());
  }

  @Test
  void matricesOfSeveralFormatsAreKeptInFloat32() {
    Path model = MODELS.resolve("gqa8");
    LlamaConfig config = LlamaConfig.read(model);
    RankTensors tensors = RankTensors.of(config, Shard.of(config, 0, 2));
    try (Checkpoint checkpoint = Checkpoint.open(MODELS.resolve("gqa8"));
        TensorSource brain = new RandomTensors(config, 0, bytes -> {})) {
      assertThat(tensors.matrixFormat(checkpoint)).isEqualTo(FloatFormat.F32);
      assertThat(tensors.matrixFormat(brain)).isEqualTo(FloatFormat.BF16);
      assertThat(tensors.matrixFormat(new EmbeddingInHalf(brain))).isEqualTo(FloatFormat.F32);
    }
  }

  /** A source that says of its embedding that it is in float16. */
  private record EmbeddingInHalf(TensorSource source) implements TensorSource {
    @Override
    public boolean has(String name) {
      return source.has(name);
    }

    @Override
    public FloatFormat format(String name) {
      return name.equals(LlamaTensors.EMBEDDING) ? FloatFormat.F16 : source.format(name);
    }

    @Override
    public void require(String name, List<Long> shape) {
      source.require(name, shape);
    }

    @Override
    public void copy(TensorPart part, long first, ByteBuffer target) {
      source.copy(part, first, target);
    }

    @Override
    public void close() {}
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static long tensorBytes(Path safetensors) throws IOException {
    try (FileChannel file = FileChannel.open(safetensors)) {
      ByteBuffer header = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
      file.read(header, 0);
      return file.size() - Long.BYTES - header.getLong(0);
    }
  }
}
