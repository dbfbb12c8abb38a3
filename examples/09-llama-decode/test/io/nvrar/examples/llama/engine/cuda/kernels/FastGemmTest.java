package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Products on a GPU, against float64. */
@Tag("gpu")
final class FastGemmTest extends FastKernelContract {
  private static final DataType[] TYPES = {DataType.BFLOAT16, DataType.FLOAT16};

  /** How often a launch is repeated, so that programmatic ones overlap. */
  private static final int REPETITIONS = 3;

  /** Of a sum's error, relative to the sum of the magnitudes. */
  private static final double SUM_ERROR = 1e-5;

  private static final float EPSILON = 1e-5f;

  private KernelImage image;

  @BeforeEach
  void loadKernels() {
    image = image("gemm");
  }

  /** A product that is computed. */
  record Shape(
      FastGemm.Output output,
      DataType type,
      int batch,
      int features,
      int columns,
      boolean programmatic) {
    boolean gated() {
      return output == FastGemm.Output.GATED;
    }

    int rowsOfWeights() {
      return gated() ? 2 * features : features;
    }

    long seed() {
      return Objects.hash(output.name(), batch, features, columns);
    }

    DataType outType() {
      return output == FastGemm.Output.OUT || gated() ? type : DataType.FLOAT32;
    }
  }

  static Stream<Shape> everyBatch() {
    List<Shape> shapes = new ArrayList<>();
    for (FastGemm.Output output : FastGemm.Output.values()) {
      for (int batch = 1; batch <= GemmPlan.MAX_BATCH; batch++) {
        DataType type = TYPES[batch % 2];
        shapes.add(new Shape(output, type, batch, 392, 512, batch % 4 < 2));
      }
    }
    return shapes.stream();
  }

  static Stream<Shape> everyShape() {
    // Fewer features than multiprocessors; the last tile not whole; several tiles of a block;
    // columns from one block to
    // many stages, and not a multiple of a stage; the numbers of groups from 1 to 8.
    int[][] sizes = {
      {1, 64},
      {8, 64},
      {56, 192},
      {136, 64},
      {1032, 320},
      {2568, 1088},
      {4360, 448},
      {6152, 256},
      {8520, 128},
      {10648, 192},
      {14792, 128},
      {17000, 128},
      {35000, 64},
      {1544, 4096},
      {264, 28672}
    };
    List<Shape> shapes = new ArrayList<>();
    int i = 0;
    for (int[] size : sizes) {
      for (FastGemm.Output output : FastGemm.Output.values()) {
        for (int batch : new int[] {1, 13, 32}) {
          if ((long) batch * size[0] * size[1] <= 60_000_000) {
            boolean programmatic = i % 3 != 0;
            shapes.add(new Shape(output, TYPES[i++ % 2], batch, size[0], size[1], programmatic));
          }
        }
      }
    }
    return shapes.stream();
  }

  @ParameterizedTest
  @MethodSource({"everyBatch", "everyShape"})
  void everyNumberIsTheProducts(Shape shape) {
    Random random = new Random(shape.seed());
    int count = shape.batch() * shape.columns();
    float[] x = random(random, shape.type(), count, 1);
    double deviation = 1 / Math.sqrt(shape.columns());
    float[] weights =
        random(random, shape.type(), shape.rowsOfWeights() * shape.columns(), deviation);
    float[] bias = random(random, DataType.FLOAT32, shape.features(), 1);
    int parts = shape.columns() / 64;
    float[] squares = positive(random, shape.batch() * parts);

    FastGemm gemm = gemm(shape);
    TensorMap weightMap =
        gemm.weights(buffer(shape.type(), withNoNumbersBehind(weights, weights.length + 64)));
    TensorMap rows = gemm.rows(buffer(shape.type(), withNoNumbersBehind(x, count + 4096)));
    DeviceBuffer out = output(shape.outType(), shape.batch() * shape.features());
    DeviceBuffer biases = buffer(DataType.FLOAT32, bias);
    DeviceBuffer keys = buffer(new long[shape.batch() * gemm.keysOfRow()]);
    RowSquares scales =
        new RowSquares(buffer(DataType.FLOAT32, squares), parts, shape.columns(), EPSILON);
    for (int i = 0; i < REPETITIONS; i++) {
      boolean overlap = shape.programmatic();
      switch (shape.output()) {
        case OUT32 -> gemm.float32(stream, overlap, weightMap, rows, out);
        case OUT -> gemm.rounded(stream, overlap, weightMap, rows, biases, out);
        case GATED -> gemm.gated(stream, overlap, weightMap, rows, scales, out);
        case HEAD ->
            gemm.head(stream, overlap, weightMap, rows, scales, 7, RowSampling.GREEDY, out, keys);
      }
    }
    compare(shape, read(out), x, weights, bias, scales(squares, shape));
    if (shape.output() == FastGemm.Output.HEAD) {
      assertGreedyKeys(shape, 7, read(out), longs(keys));
    }
  }

  private static void compare(
      Shape shape, float[] out, float[] x, float[] weights, float[] bias, double[] scales) {
    Comparison comparison = new Comparison(shape.toString());
    double rounding = roundingError(shape.outType()) * 1.01;
    IntStream.range(0, shape.batch() * shape.features())
        .parallel()
        .mapToObj(
            i -> {
              int row = i / shape.features();
              int feature = i % shape.features();
              double scale = scales[row];
              Sum sum = Sum.of(x, weights, row, feature, shape.columns());
              double expected = sum.value();
              double allowed = sum.magnitude() * SUM_ERROR;
              switch (shape.output()) {
                case OUT32 -> {}
                case OUT -> expected += bias[feature];
                case HEAD -> {
                  expected *= scale;
                  allowed *= scale;
                }
                case GATED -> {
                  Sum up = Sum.of(x, weights, row, shape.features() + feature, shape.columns());
                  double gate = expected * scale;
                  double silu = gate / (1 + Math.exp(-gate));
                  expected = silu * up.value() * scale;
                  // The slope of silu is at most 1.1.
                  allowed =
                      SUM_ERROR
                          * scale
                          * (1.1 * sum.magnitude() * Math.abs(up.value() * scale)
                              + up.magnitude() * Math.abs(silu));
                }
              }
              allowed += Math.abs(expected) * (rounding + 2e-6) + 1e-7;
              return new Expected(row, feature, expected, allowed);
            })
        .toList()
        .forEach(
            e ->
                comparison.add(
                    out[e.row() * shape.features() + e.feature()],
                    e.value(),
                    e.allowed(),
                    () -> String.format(Locale.ROOT, "row %d, feature %d", e.row(), e.feature())));
    comparison.verify();
  }

  private record Expected(int row, int feature, double value, double allowed) {}

  /** A sum of products, and of their magnitudes. */
  private record Sum(double value, double magnitude) {
    static Sum of(float[] x, float[] weights, int row, int feature, int columns) {
      double value = 0;
      double magnitude = 0;
      for (int k = 0; k < columns; k++) {
        double product = (double) x[row * columns + k] * weights[feature * columns + k];
        value += product;
        magnitude += Math.abs(product);
      }
      return new Sum(value, magnitude);
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"BFLOAT16", "FLOAT16"})
  void aChainOfProgrammaticLaunchesGivesTheSameBits(DataType type) {
    Chain chain = new Chain(type, 5, 1536, 1024);
    float[] expected = chain.run(false);
    for (int i = 0; i < 20; i++) {
      assertSame("programmatic run " + i, chain.run(true), expected);
    }
    chain.clear();
    try (DeviceGraph graph = device().capture(stream, () -> chain.enqueue(true))) {
      for (int i = 0; i < 20; i++) {
        chain.clear();
        graph.launch(stream);
        assertSame("graph launch " + i, floats(chain.last()), expected);
      }
    }
  }

  /** Products of which each multiplies what the one before has written, in buffers used again. */
  private final class Chain {
    private static final int LENGTH = 30;

    private final DeviceBuffer narrow;
    private final DeviceBuffer wide;
    private final DeviceBuffer start;
    private final FastGemm widen;
    private final FastGemm shrink;
    private final TensorMap widening;
    private final TensorMap shrinking;
    private final TensorMap narrowRows;
    private final TensorMap wideRows;

    Chain(DataType type, int batch, int wideColumns, int narrowColumns) {
      Random random = new Random(1);
      start = buffer(type, random(random, type, batch * narrowColumns, 1));
      narrow = buffer(type, new float[batch * narrowColumns]);
      wide = buffer(type, new float[batch * wideColumns]);
      widen =
          new FastGemm(gpu, image, type, FastGemm.Output.OUT, batch, wideColumns, narrowColumns);
      shrink =
          new FastGemm(gpu, image, type, FastGemm.Output.OUT, batch, narrowColumns, wideColumns);
      widening =
          widen.weights(
              buffer(
                  type,
                  random(random, type, wideColumns * narrowColumns, 1 / Math.sqrt(narrowColumns))));
      shrinking =
          shrink.weights(
              buffer(
                  type,
                  random(random, type, wideColumns * narrowColumns, 1 / Math.sqrt(wideColumns))));
      narrowRows = widen.rows(narrow);
      wideRows = shrink.rows(wide);
    }

    void clear() {
      stream.copy(start, narrow);
      stream.synchronize();
    }

    void enqueue(boolean programmatic) {
      for (int i = 0; i < LENGTH; i++) {
        widen.rounded(stream, programmatic, widening, narrowRows, null, wide);
        shrink.rounded(stream, programmatic, shrinking, wideRows, null, narrow);
      }
    }

    DeviceBuffer last() {
      return narrow;
    }

    float[] run(boolean programmatic) {
      clear();
      enqueue(programmatic);
      return floats(narrow);
    }
  }

  @Test
  void theNoiseIsThatOfJavasGenerator() {
    // As many tokens as multiprocessors at most: each block has one, so that each token's key is
    // seen.
    int tokens = 64;
    int first = 1000;
    long seed = 0x1234567890abcdefL;
    int[] sequences = {3, 9, 3};
    int[] positions = {0, 77, 100_000};
    float[] temperatures = {1, 0.5f, 2};
    Head head = new Head(3, tokens, new float[tokens * 64]);
    assertThat(head.gemm.keysOfRow()).isEqualTo(tokens);
    long[] keys =
        head.keys(
            first,
            new RowSampling(
                buffer(DataType.FLOAT32, temperatures),
                buffer(seed),
                buffer(sequences),
                buffer(positions)));
    Comparison comparison = new Comparison("noise");
    for (int row = 0; row < 3; row++) {
      for (int i = 0; i < tokens; i++) {
        long key = keys[row * tokens + i];
        assertThat(TokenNoise.token(key)).isEqualTo(first + i);
        int bits = TokenNoise.bits(seed, sequences[row], positions[row], first + i);
        double expected = TokenNoise.gumbel(bits);
        String place = String.format(Locale.ROOT, "row %d, token %d", row, first + i);
        comparison.add(
            TokenNoise.value(key), expected, 1e-5 + 1e-6 * Math.abs(expected), () -> place);
      }
    }
    comparison.verify();
  }

  @Test
  void theKeyWithNoiseIsThatOfTheGreatestSum() {
    int tokens = 5000;
    int first = 40_000;
    long seed = 42;
    int batch = 9;
    Random random = new Random(5);
    float[] temperatures = new float[batch];
    for (int row = 0; row < batch; row++) {
      temperatures[row] = row % 3 * 0.7f;
    }
    int[] sequences = IntStream.range(0, batch).map(row -> batch - row).toArray();
    int[] positions = IntStream.range(0, batch).map(row -> 10 * row).toArray();
    Head head = new Head(batch, tokens, random(random, DataType.BFLOAT16, tokens * 64, 0.3));
    long[] keys =
        head.keys(
            first,
            new RowSampling(
                buffer(DataType.FLOAT32, temperatures),
                buffer(seed),
                buffer(sequences),
                buffer(positions)));
    float[] logits = read(head.logits);
    for (int row = 0; row < batch; row++) {
      long best = greatest(keys, row, head.gemm.keysOfRow());
      double most = Double.NEGATIVE_INFINITY;
      double ofBest = Double.NaN;
      for (int i = 0; i < tokens; i++) {
        double value = logits[row * tokens + i];
        if (temperatures[row] > 0) {
          value =
              value / temperatures[row]
                  + TokenNoise.gumbel(
                      TokenNoise.bits(seed, sequences[row], positions[row], first + i));
        }
        most = Math.max(most, value);
        if (TokenNoise.token(best) == first + i) {
          ofBest = value;
        }
      }
      assertThat(ofBest).as("the token of row %d", row).isCloseTo(most, within(1e-4));
      assertThat((double) TokenNoise.value(best))
          .as("the value of row %d", row)
          .isCloseTo(most, within(1e-4));
    }
  }

  @Test
  void equalLogitsGiveTheSmallestTokenAndWhatIsNoNumberWins() {
    int tokens = 1000;
    float[] weights = new float[tokens * 64];
    Head equal = new Head(2, tokens, weights);
    long[] keys = equal.keys(50, RowSampling.GREEDY);
    for (int row = 0; row < 2; row++) {
      assertThat(TokenNoise.token(greatest(keys, row, equal.gemm.keysOfRow()))).isEqualTo(50);
    }
    weights[777 * 64 + 5] = Float.NaN;
    Head damaged = new Head(2, tokens, weights);
    keys = damaged.keys(50, RowSampling.GREEDY);
    for (int row = 0; row < 2; row++) {
      long best = greatest(keys, row, damaged.gemm.keysOfRow());
      assertThat((int) (best >>> 32)).isEqualTo(-1);
      assertThat(TokenNoise.token(best)).isEqualTo(827);
    }
  }

  @Test
  void whatDoesNotFitIsRefused() {
    FastGemm gemm = new FastGemm(gpu, image, DataType.BFLOAT16, FastGemm.Output.OUT32, 4, 128, 64);
    assertThatThrownBy(() -> gemm.weights(buffer(DataType.BFLOAT16, new float[127 * 64])))
        .hasMessageContaining("weights are 8192 elements of BFLOAT16 at least");
    assertThatThrownBy(() -> gemm.rows(buffer(DataType.FLOAT16, new float[4 * 64])))
        .hasMessageContaining("rows are 256 elements of BFLOAT16 at least");
    assertThatThrownBy(
            () -> new FastGemm(gpu, image, DataType.FLOAT32, FastGemm.Output.OUT, 1, 64, 64))
        .hasMessage("there are no fast kernels for FLOAT32");
  }

  /** A head with 64 columns. */
  private final class Head {
    private final FastGemm gemm;
    private final TensorMap weights;
    private final TensorMap rows;
    private final RowSquares squares;
    private final DeviceBuffer logits;
    private final DeviceBuffer keys;

    Head(int batch, int tokens, float[] weights) {
      DataType type = DataType.BFLOAT16;
      gemm = new FastGemm(gpu, image, type, FastGemm.Output.HEAD, batch, tokens, 64);
      this.weights = gemm.weights(buffer(type, weights));
      rows = gemm.rows(buffer(type, random(new Random(3), type, batch * 64, 1)));
      float[] sums = new float[batch];
      Arrays.fill(sums, 64);
      squares = new RowSquares(buffer(DataType.FLOAT32, sums), 1, 64, EPSILON);
      logits = output(DataType.FLOAT32, batch * tokens);
      keys = buffer(new long[batch * gemm.keysOfRow()]);
    }

    long[] keys(int firstToken, RowSampling sampling) {
      gemm.head(stream, true, weights, rows, squares, firstToken, sampling, logits, keys);
      return longs(keys);
    }
  }

  private void assertGreedyKeys(Shape shape, int firstToken, float[] logits, long[] keys) {
    int keysOfRow = keys.length / shape.batch();
    for (int row = 0; row < shape.batch(); row++) {
      long expected = 0;
      for (int i = 0; i < shape.features(); i++) {
        long key = TokenNoise.key(logits[row * shape.features() + i], firstToken + i);
        expected = Long.compareUnsigned(key, expected) > 0 ? key : expected;
      }
      long best = greatest(keys, row, keysOfRow);
      assertThat(best)
          .as(
              "%s, row %d: token %d of %s, and the greatest is token %d of %s",
              shape,
              row,
              TokenNoise.token(best),
              TokenNoise.value(best),
              TokenNoise.token(expected),
              TokenNoise.value(expected))
          .isEqualTo(expected);
    }
  }

  private static long greatest(long[] keys, int row, int keysOfRow) {
    long best = 0;
    for (int i = row * keysOfRow; i < (row + 1) * keysOfRow; i++) {
      best = Long.compareUnsigned(keys[i], best) > 0 ? keys[i] : best;
    }
    return best;
  }

  private long[] longs(DeviceBuffer buffer) {
    stream.synchronize();
    long[] values = new long[Math.toIntExact(buffer.count())];
    buffer.copyTo(values);
    return values;
  }

  private static double[] scales(float[] squares, Shape shape) {
    int parts = squares.length / shape.batch();
    double[] scales = new double[shape.batch()];
    for (int row = 0; row < scales.length; row++) {
      double sum = 0;
      for (int i = 0; i < parts; i++) {
        sum += squares[row * parts + i];
      }
      scales[row] = 1 / Math.sqrt(sum / shape.columns() + EPSILON);
    }
    return scales;
  }

  private static float[] positive(Random random, int count) {
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = 20 + 100 * random.nextFloat();
    }
    return values;
  }

  private FastGemm gemm(Shape shape) {
    return new FastGemm(
        gpu, image, shape.type(), shape.output(), shape.batch(), shape.features(), shape.columns());
  }
}
