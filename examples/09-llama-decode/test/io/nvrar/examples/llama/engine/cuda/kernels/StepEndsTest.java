package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.util.Arrays;
import java.util.Random;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A step begins with the embeddings of its tokens, and ends with the choice of the next ones. */
@Tag("gpu")
final class StepEndsTest extends FastKernelContract {
  private static final long SEED = 0x123456789ABCDEFL;

  private final Random random = new Random(11);

  @ParameterizedTest(name = "{0} as {1}")
  @CsvSource({
    "FLOAT32, FLOAT32",
    "BFLOAT16, FLOAT32",
    "FLOAT16, FLOAT32",
    "BFLOAT16, BFLOAT16",
    "FLOAT16, FLOAT16"
  })
  void embed(DataType weights, DataType rows) {
    int hidden = 130;
    int count = 20;
    int first = 100;
    RankShape shape = new RankShape(1, hidden, 1, 0, 1, 0, 1, 16, 8, count, first);
    float[] table = random(random, weights, count * hidden, 1);
    int[] tokens = {first, first + count - 1, first - 1, first + count, 0, first + 7};
    StepState state = new StepState(device(), tokens.length);
    for (int row = 0; row < tokens.length; row++) {
      state.set(row, tokens[row], row == 5 ? -1 : row, 0);
    }
    state.write(stream);
    DeviceBuffer out = output(rows, tokens.length * hidden);
    ends(weights, rows).embed(stream, shape, buffer(weights, table), state, tokens.length, out);
    float[] actual = read(out);
    float[] expected = new float[tokens.length * hidden];
    for (int row = 0; row < 2; row++) {
      System.arraycopy(table, (tokens[row] - first) * hidden, expected, row * hidden, hidden);
    }
    assertSame("embedding", actual, expected);
    state.close();
  }

  @Test
  void theGreatestOfManyKeysIsFound() {
    int rows = 3;
    int count = 133;
    long[] keys = random.longs((long) rows * count).toArray();
    DeviceBuffer best = buffer(new long[rows]);
    ends(DataType.FLOAT32, DataType.FLOAT32).best(stream, rows, buffer(keys), count, best);
    for (int row = 0; row < rows; row++) {
      long greatest = 0;
      for (int i = 0; i < count; i++) {
        greatest = greatestOf(greatest, keys[row * count + i]);
      }
      assertThat(longs(best)[row]).isEqualTo(greatest);
    }
  }

  @Test
  void theGreatestLogitOfEachRowIsFoundAndOfEqualOnesTheFirst() {
    int rows = 4;
    int count = 1000;
    int first = 5000;
    float[] logits = random(random, DataType.FLOAT32, rows * count, 3);
    logits[count + 700] = 50;
    logits[count + 300] = 50;
    logits[2 * count + 4] = Float.NaN;
    DeviceBuffer best = buffer(new long[rows]);
    RankShape shape = new RankShape(1, 64, 1, 0, 1, 0, 1, 16, 8, count, first);
    ends(DataType.FLOAT32, DataType.FLOAT32)
        .bestOfLogits(
            stream, rows, shape, buffer(DataType.FLOAT32, logits), RowSampling.GREEDY, best);
    long[] actual = longs(best);
    for (int row = 0; row < rows; row++) {
      long greatest = 0;
      for (int i = 0; i < count; i++) {
        greatest = greatestOf(greatest, TokenNoise.key(logits[row * count + i], first + i));
      }
      assertThat(actual[row]).as("row %d", row).isEqualTo(greatest);
    }
    assertThat(TokenNoise.token(actual[1])).isEqualTo(first + 300);
  }

  @Test
  void noiseMovesTheChoiceOfRowsWithATemperature() {
    int rows = 2;
    int count = 600;
    float[] logits = random(random, DataType.FLOAT32, rows * count, 1);
    float[] temperatures = {0, 0.7f};
    int[] sequences = {3, 9};
    int[] positions = {17, 40};
    DeviceBuffer best = buffer(new long[rows]);
    RankShape shape = new RankShape(1, 64, 1, 0, 1, 0, 1, 16, 8, count, 0);
    ends(DataType.FLOAT32, DataType.FLOAT32)
        .bestOfLogits(
            stream,
            rows,
            shape,
            buffer(DataType.FLOAT32, logits),
            new RowSampling(
                buffer(DataType.FLOAT32, temperatures),
                buffer(new long[] {SEED}),
                buffer(sequences),
                buffer(positions)),
            best);
    long[] actual = longs(best);
    for (int row = 0; row < rows; row++) {
      int chosen = 0;
      double greatest = Double.NEGATIVE_INFINITY;
      for (int token = 0; token < count; token++) {
        double value = logits[row * count + token];
        if (temperatures[row] > 0) {
          value =
              value / temperatures[row]
                  + TokenNoise.gumbel(TokenNoise.bits(SEED, sequences[row], positions[row], token));
        }
        if (value > greatest) {
          greatest = value;
          chosen = token;
        }
      }
      assertThat(TokenNoise.token(actual[row])).as("row %d", row).isEqualTo(chosen);
      assertThat((double) TokenNoise.value(actual[row])).isCloseTo(greatest, within(1e-4));
    }
  }

  @Test
  void chosenTokensAreTheNextStepsUntilARowEnds() {
    int rows = 5;
    int ranks = 3;
    int ringSteps = 2;
    StepState state = new StepState(device(), rows + 1);
    for (int row = 0; row < rows; row++) {
      state.set(row, 1, row == 1 ? -1 : 10 + row, row);
    }
    state.set(rows, 7, 8, 9);
    state.write(stream);
    DeviceBuffer remaining = buffer(5, 5, 1, 5, 5);
    DeviceBuffer end = buffer(77, 42);
    DeviceBuffer step = buffer(0);
    DeviceBuffer ring = device().allocatePinned(DataType.INT64, (long) ringSteps * rows);
    long[] keys = new long[ranks * rows];
    for (int rank = 0; rank < ranks; rank++) {
      for (int row = 0; row < rows; row++) {
        keys[rank * rows + row] = TokenNoise.key(rank == row % ranks ? 2 : -1, 100 * rank + row);
      }
    }
    // Row 3 gets an end token, row 4 no number.
    keys[3] = TokenNoise.key(5, 42);
    keys[4] = TokenNoise.key(Float.NaN, 3);
    DeviceBuffer gathered = buffer(keys);
    StepEnds ends = ends(DataType.FLOAT32, DataType.FLOAT32);
    StepEnds.Next next = new StepEnds.Next(state, remaining, end, step, ring, rows, ringSteps);

    for (int i = 0; i < 3; i++) {
      ends.choose(stream, next, gathered, ranks);
    }
    stream.synchronize();

    long[] words = new long[ringSteps * rows];
    ring.copyTo(words);
    assertThat(Arrays.copyOfRange(words, rows, 2 * rows))
        .as("step 1")
        .containsExactly(word(1, 0), word(1, -1), word(1, -1), word(1, -1), word(1, -1));
    assertThat(Arrays.copyOf(words, rows))
        .as("step 2, in the place of step 0")
        .containsExactly(word(2, 0), word(2, -1), word(2, -1), word(2, -1), word(2, -1));
    assertThat(ints(step)).containsExactly(3);
    assertThat(ints(state.positions())).containsExactly(13, -1, -1, -1, -1, 8);
    assertThat(ints(state.tokens())).startsWith(0, 1, 202, 42).endsWith(7);
    assertThat(ints(remaining)).startsWith(2, 5, 0, 4);
    ring.close();
    state.close();
  }

  @ParameterizedTest(name = "top-p {0}, of all {1}")
  @CsvSource({"1, false", "0.9, false", "0.05, false", "0.9, true", "0.3, true"})
  void tokensAreDrawnAmongTheLikeliestThatHaveTopPTogether(float topP, boolean ofAll) {
    int k = 70;
    int rows = 40;
    float temperature = 0.7f;
    float[] values = new float[rows * k];
    int[] indices = new int[rows * k];
    double[] sums = new double[rows];
    for (int row = 0; row < rows; row++) {
      float value = 9;
      for (int i = 0; i < k; i++) {
        values[row * k + i] = value;
        indices[row * k + i] = row + 31 * i;
        sums[row] += Math.exp((value - 9) / temperature);
        value -= random.nextFloat() * 0.1f;
      }
    }
    long[] totals = new long[2 * rows];
    for (int row = 0; row < rows; row++) {
      // Row 1 has so many others that these are too few of them.
      double others = row == 1 ? 100 : 1.02;
      totals[2 * row] = Integer.toUnsignedLong(Float.floatToRawIntBits(9));
      totals[2 * row + 1] = Double.doubleToRawLongBits(sums[row] * others);
    }
    int[] tokens = drawn(k, values, indices, ofAll ? totals : null, topP, temperature);
    for (int row = 0; row < rows; row++) {
      double total = ofAll ? sums[row] * (row == 1 ? 100 : 1.02) : sums[row];
      double before = 0;
      int expected = -9;
      double greatest = Double.NEGATIVE_INFINITY;
      boolean close = false;
      for (int i = 0; i < k; i++) {
        close |= Math.abs(before / total - topP) < 1e-5;
        int token = indices[row * k + i];
        double noisy =
            values[row * k + i] / temperature
                + TokenNoise.gumbel(TokenNoise.bits(SEED, row, 100 + row, token));
        if (before < topP * total && noisy > greatest) {
          greatest = noisy;
          expected = token;
        }
        before += Math.exp((values[row * k + i] - 9) / temperature);
      }
      if (ofAll && row == 1) {
        expected = TokenRing.UNDECIDED;
      }
      if (!close) {
        assertThat(tokens[row]).as("row %d", row).isEqualTo(expected);
      }
    }
  }

  @Test
  void aRowOfFewTokensIsDrawnOfThemAndOneWithoutANumberIsNot() {
    float nan = Float.NaN;
    float[] values = {3, Float.NEGATIVE_INFINITY, nan, nan, Float.POSITIVE_INFINITY, 1};
    int[] indices = {17, -1, -1, -1, 3, 4};
    // Of the first row it is less than its likeliest token weighs, as by rounding.
    long[] totals = new long[6];
    assertThat(drawn(2, values, indices, totals, 0.9f, 1))
        .containsExactly(17, TokenRing.NOT_FINITE, TokenRing.NOT_FINITE);
  }

  /** The tokens of a step of rows at the positions 100, 101 and so on. */
  private int[] drawn(
      int k,
      float[] values,
      int[] indices,
      long @Nullable [] given,
      float topP,
      float temperature) {
    int rows = values.length / k;
    StepState state = new StepState(device(), rows);
    float[] temperatures = new float[rows];
    int[] remaining = new int[rows];
    for (int row = 0; row < rows; row++) {
      state.set(row, 1, 100 + row, row);
      temperatures[row] = temperature;
      remaining[row] = 9;
    }
    state.write(stream);
    DeviceBuffer ring = device().allocatePinned(DataType.INT64, rows);
    DeviceBuffer totals = given == null ? null : buffer(given);
    ends(DataType.FLOAT32, DataType.FLOAT32)
        .draw(
            stream,
            new StepEnds.Next(
                state, buffer(remaining), buffer(new int[0]), buffer(0), ring, rows, 1),
            new Likeliest.Found(
                buffer(DataType.FLOAT32, values),
                buffer(indices),
                totals,
                buffer(DataType.FLOAT32, topP),
                k,
                1),
            new RowSampling(
                buffer(DataType.FLOAT32, temperatures),
                buffer(new long[] {SEED}),
                state.sequences(),
                state.positions()));
    stream.synchronize();
    long[] words = new long[rows];
    ring.copyTo(words);
    ring.close();
    int[] positions = ints(state.positions());
    int[] tokens = new int[rows];
    for (int row = 0; row < rows; row++) {
      tokens[row] = (int) words[row];
      assertThat(positions[row]).isEqualTo(tokens[row] < 0 ? -1 : 101 + row);
    }
    state.close();
    return tokens;
  }

  @Test
  void theWeightsOfARowAreSummedBesideItsGreatestLogit() {
    int rows = 3;
    int count = 5000;
    float[] logits = random(random, DataType.FLOAT32, rows * count, 4);
    float[] temperatures = {1, 0.5f, 2};
    DeviceBuffer totals = buffer(new long[2 * rows]);
    RankShape shape = new RankShape(1, 64, 1, 0, 1, 0, 1, 16, 8, count, 0);
    ends(DataType.FLOAT32, DataType.FLOAT32)
        .totals(
            stream,
            rows,
            shape,
            buffer(DataType.FLOAT32, logits),
            new RowSampling(
                buffer(DataType.FLOAT32, temperatures),
                buffer(new long[1]),
                buffer(new int[rows]),
                buffer(new int[rows])),
            totals);
    long[] actual = longs(totals);
    for (int row = 0; row < rows; row++) {
      float greatest = Float.NEGATIVE_INFINITY;
      for (int i = 0; i < count; i++) {
        greatest = Math.max(greatest, logits[row * count + i]);
      }
      double sum = 0;
      for (int i = 0; i < count; i++) {
        sum += Math.exp(((double) logits[row * count + i] - greatest) / temperatures[row]);
      }
      assertThat(Float.intBitsToFloat((int) actual[2 * row])).isEqualTo(greatest);
      assertThat(Double.longBitsToDouble(actual[2 * row + 1])).isCloseTo(sum, within(1e-5 * sum));
    }
  }

  @Test
  void whatIsNoNumberIsToldToTheHost() {
    float[] values = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, 1e38f, -1e38f};
    int rows = values.length;
    StepState state = new StepState(device(), rows);
    long[] keys = new long[rows];
    for (int row = 0; row < rows; row++) {
      state.set(row, 1, 0, row);
      keys[row] = TokenNoise.key(values[row], 5);
    }
    state.write(stream);
    DeviceBuffer ring = device().allocatePinned(DataType.INT64, rows);
    int[] remaining = new int[rows];
    Arrays.fill(remaining, 9);
    ends(DataType.FLOAT32, DataType.FLOAT32)
        .choose(
            stream,
            new StepEnds.Next(
                state, buffer(remaining), buffer(new int[0]), buffer(0), ring, rows, 1),
            buffer(keys),
            1);
    stream.synchronize();
    long[] words = new long[rows];
    ring.copyTo(words);
    int none = TokenRing.NOT_FINITE;
    assertThat(words)
        .containsExactly(word(0, none), word(0, none), word(0, none), word(0, 5), word(0, 5));
    ring.close();
    state.close();
  }

  private static long word(int step, int token) {
    return (step + 1L) << 32 | Integer.toUnsignedLong(token);
  }

  private static long greatestOf(long a, long b) {
    return Long.compareUnsigned(a, b) > 0 ? a : b;
  }

  private StepEnds ends(DataType weights, DataType rows) {
    return new StepEnds(image("step"), weights, rows, false);
  }

  private long[] longs(DeviceBuffer buffer) {
    stream.synchronize();
    long[] values = new long[(int) buffer.count()];
    buffer.copyTo(values);
    return values;
  }

  private int[] ints(DeviceBuffer buffer) {
    stream.synchronize();
    int[] values = new int[(int) buffer.count()];
    buffer.copyTo(values);
    return values;
  }
}
