package io.nvrar.examples.llama.engine.cuda.kernels;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Each plain kernel computes what float64 does, for shapes that divide nothing. */
@Tag("gpu")
final class PlainKernelsTest extends FastKernelContract {
  private static final double TOLERANCE = 1e-5;

  private final Random random = new Random(7);

  static Stream<Arguments> products() {
    return Stream.of(DataType.FLOAT32, DataType.BFLOAT16, DataType.FLOAT16)
        .flatMap(
            type ->
                IntStream.of(1, 2, 3, 4, 7, 8, 9, 33)
                    .boxed()
                    .flatMap(
                        rows ->
                            Stream.of(
                                Arguments.of(type, rows, 1, 1),
                                Arguments.of(type, rows, 37, 130),
                                Arguments.of(type, rows, 64, 0),
                                Arguments.of(type, rows, 129, 56))));
  }

  @ParameterizedTest(name = "{0}: {1} rows, {2} outputs, {3} inputs")
  @MethodSource("products")
  void multiply(DataType type, int rows, int outputs, int inputs) {
    for (boolean hasBias : new boolean[] {false, true}) {
      float[] x = random(random, DataType.FLOAT32, rows * inputs, 1);
      float[] w = random(random, type, outputs * inputs, 1);
      float[] b = random(random, DataType.FLOAT32, outputs, 1);
      DeviceBuffer out = output(DataType.FLOAT32, rows * outputs);
      kernels(shape(2, 1, 16, 8), type)
          .multiply(
              stream,
              rows,
              buffer(DataType.FLOAT32, x),
              inputs,
              buffer(type, w),
              outputs,
              hasBias ? buffer(DataType.FLOAT32, b) : null,
              out);
      float[] actual = read(out);
      Comparison comparison = new Comparison("product");
      for (int row = 0; row < rows; row++) {
        for (int o = 0; o < outputs; o++) {
          double sum = hasBias ? b[o] : 0;
          double magnitude = Math.abs(sum);
          for (int i = 0; i < inputs; i++) {
            double term = (double) x[row * inputs + i] * w[o * inputs + i];
            sum += term;
            magnitude += Math.abs(term);
          }
          int at = row * outputs + o;
          String place = String.format(Locale.ROOT, "row %d, output %d", row, o);
          comparison.add(actual[at], sum, magnitude * TOLERANCE, () -> place);
        }
      }
      comparison.verify();
    }
  }

  @ParameterizedTest(name = "{0} rows of {1}, begins: {2}")
  @CsvSource({"1, 64, true", "3, 56, false", "5, 130, true", "2, 4096, false", "4, 1000, false"})
  void addNorm(int rows, int hidden, boolean begins) {
    float[] sum = random(random, DataType.FLOAT32, rows * hidden, 1);
    float[] before = random(random, DataType.FLOAT32, rows * hidden, 2);
    float[] gamma = random(random, DataType.FLOAT32, hidden, 1);
    float epsilon = 1e-5f;
    DeviceBuffer residual = buffer(DataType.FLOAT32, before);
    DeviceBuffer out = output(DataType.FLOAT32, rows * hidden);
    kernels(new RankShape(1, hidden, 2, 0, 1, 0, 2, 16, 8, 8, 0), DataType.FLOAT32)
        .addNorm(
            stream,
            rows,
            buffer(DataType.FLOAT32, sum),
            residual,
            begins,
            buffer(DataType.FLOAT32, gamma),
            epsilon,
            out);
    float[] actual = read(out);
    float[] after = floats(residual);
    Comparison comparison = new Comparison("norm");
    for (int row = 0; row < rows; row++) {
      double squares = 0;
      for (int i = 0; i < hidden; i++) {
        int at = row * hidden + i;
        float number = begins ? sum[at] : before[at] + sum[at];
        comparison.add(after[at], number, 0, () -> "residual " + at);
        squares += (double) number * number;
      }
      double factor = 1 / Math.sqrt(squares / hidden + epsilon);
      for (int i = 0; i < hidden; i++) {
        int at = row * hidden + i;
        double expected = after[at] * factor * gamma[i];
        comparison.add(actual[at], expected, Math.abs(expected) * TOLERANCE, () -> "element " + at);
      }
    }
    comparison.verify();
  }

  @ParameterizedTest(name = "{0} rows of {1}")
  @CsvSource({"1, 1", "3, 100", "2, 700"})
  void swiglu(int rows, int width) {
    float[] gateUp = random(random, DataType.FLOAT32, rows * 2 * width, 3);
    DeviceBuffer out = output(DataType.FLOAT32, rows * width);
    kernels(shape(2, 1, 16, width), DataType.FLOAT32)
        .swiglu(stream, rows, buffer(DataType.FLOAT32, gateUp), out);
    float[] actual = read(out);
    Comparison comparison = new Comparison("swiglu");
    for (int row = 0; row < rows; row++) {
      for (int i = 0; i < width; i++) {
        double gate = gateUp[row * 2 * width + i];
        double expected = gate / (1 + Math.exp(-gate)) * gateUp[(row * 2 + 1) * width + i];
        int at = row * width + i;
        comparison.add(actual[at], expected, Math.abs(expected) * TOLERANCE, () -> "element " + at);
      }
    }
    comparison.verify();
  }

  @ParameterizedTest(name = "{0} heads, {1} key/value heads of {2}, positions up to {3}")
  @CsvSource({
    "1, 1, 8, 5",
    "4, 1, 14, 63",
    "4, 2, 16, 64",
    "8, 2, 64, 200",
    "6, 2, 34, 300",
    "8, 2, 128, 700",
    "4, 1, 256, 130"
  })
  void rotateAndAttend(int heads, int keyValueHeads, int size, int positions) {
    RankShape shape = shape(heads, keyValueHeads, size, 8);
    compareAttention(shape, positions);
  }

  @Test
  void headsOfARankMayShareKeyValueHeadsUnevenly() {
    // Heads 4 to 7 of a model where three share one: of head 4 and 5 it is 1, of 6 and 7 it is 2.
    compareAttention(new RankShape(1, 64, 4, 4, 2, 1, 3, 16, 8, 8, 0), 100);
  }

  // Two sequences, of which the second is a position behind; an idle row between their last two.
  private void compareAttention(RankShape shape, int positions) {
    int size = shape.headSize();
    int half = size / 2;
    int pagesOfSequence = positions / PagedCache.PAGE_POSITIONS + 1;
    int pages = 2 * pagesOfSequence + 1;
    int[] table = new int[2 * pagesOfSequence];
    for (int i = 0; i < table.length; i++) {
      // The page 0 is nobody's.
      table[i] = pages - 1 - i;
    }
    float[] angles = new float[positions * size];
    for (int i = 0; i < positions * half; i++) {
      int position = i / half;
      double angle = position * Math.pow(10000, -(double) (i % half) / half);
      angles[2 * i] = (float) Math.cos(angle);
      angles[2 * i + 1] = (float) Math.sin(angle);
    }
    int poolSize = pages * shape.keyValueHeads() * PagedCache.PAGE_POSITIONS * size;
    PagedCache cache =
        new PagedCache(
            output(DataType.FLOAT32, poolSize),
            output(DataType.FLOAT32, poolSize),
            1,
            pages,
            shape.keyValueHeads(),
            size,
            buffer(table),
            pagesOfSequence);
    DeviceBuffer anglesBuffer = buffer(DataType.FLOAT32, angles);
    PlainKernels kernels = kernels(shape, DataType.FLOAT32);
    int width = shape.queryKeyValueSize();
    AttentionOfRows reference = new AttentionOfRows(shape, angles);
    Comparison comparison = new Comparison("attention");
    int most = 40;
    for (int first = 0; first < positions; first += most) {
      int count = Math.min(most, positions - first);
      int rows = 2 * count + 1;
      StepState state = new StepState(device(), rows);
      for (int i = 0; i < count; i++) {
        state.set(i, 0, first + i, 0);
        state.set(count + 1 + i, 0, first + i - 1, 1);
      }
      state.set(count, 0, -1, 0);
      state.write(stream);
      float[] given = random(random, DataType.FLOAT32, rows * width, 1);
      DeviceBuffer queryKeyValue = buffer(DataType.FLOAT32, given);
      DeviceBuffer out = output(DataType.FLOAT32, rows * shape.attentionSize());
      kernels.rotate(stream, rows, state, cache, 0, queryKeyValue, anglesBuffer);
      kernels.attend(stream, rows, state, cache, 0, queryKeyValue, out);
      float[] actual = read(out);
      for (int row = 0; row < rows; row++) {
        int sequence = row <= count ? 0 : 1;
        int position = row == count ? -1 : sequence == 0 ? first + row : first + row - count - 2;
        double[] expected = reference.attend(sequence, position, given, row * width);
        for (int i = 0; i < expected.length; i++) {
          String place =
              String.format(Locale.ROOT, "row %d at position %d, number %d", row, position, i);
          comparison.add(actual[row * shape.attentionSize() + i], expected[i], 2e-5, () -> place);
        }
      }
      state.close();
    }
    comparison.verify();
  }

  private PlainKernels kernels(RankShape shape, DataType weights) {
    return new PlainKernels(image("plain"), shape, weights);
  }

  private static RankShape shape(int heads, int keyValueHeads, int headSize, int width) {
    return new RankShape(
        1, 64, heads, 0, keyValueHeads, 0, heads / keyValueHeads, headSize, width, 8, 0);
  }

  /** Attention in float64, with the keys and values of all rows that it was given. */
  private static final class AttentionOfRows {
    private final RankShape shape;
    private final float[] angles;
    private final List<List<double[]>> rows = List.of(new ArrayList<>(), new ArrayList<>());

    AttentionOfRows(RankShape shape, float[] angles) {
      this.shape = shape;
      this.angles = angles;
    }

    double[] attend(int sequence, int position, float[] given, int from) {
      int size = shape.headSize();
      double[] out = new double[shape.attentionSize()];
      if (position < 0) {
        return out;
      }
      double[] row = turned(position, given, from);
      rows.get(sequence).add(row);
      int keysAt = shape.attentionSize();
      int valuesAt = keysAt + shape.keyValueHeads() * size;
      for (int head = 0; head < shape.heads(); head++) {
        int shared =
            (shape.firstHead() + head) / shape.headsPerKeyValueHead() - shape.firstKeyValueHead();
        double[] weights = new double[position + 1];
        double total = 0;
        for (int p = 0; p <= position; p++) {
          double score = 0;
          for (int i = 0; i < size; i++) {
            score += row[head * size + i] * rows.get(sequence).get(p)[keysAt + shared * size + i];
          }
          weights[p] = Math.exp(score / Math.sqrt(size));
          total += weights[p];
        }
        for (int p = 0; p <= position; p++) {
          for (int i = 0; i < size; i++) {
            out[head * size + i] +=
                weights[p] / total * rows.get(sequence).get(p)[valuesAt + shared * size + i];
          }
        }
      }
      return out;
    }

    private double[] turned(int position, float[] given, int from) {
      int size = shape.headSize();
      int half = size / 2;
      double[] row = new double[shape.queryKeyValueSize()];
      for (int i = 0; i < row.length; i++) {
        row[i] = given[from + i];
      }
      for (int head = 0; head < shape.heads() + shape.keyValueHeads(); head++) {
        for (int i = 0; i < half; i++) {
          double cosine = angles[position * size + 2 * i];
          double sine = angles[position * size + 2 * i + 1];
          double first = row[head * size + i];
          double second = row[head * size + half + i];
          row[head * size + i] = first * cosine - second * sine;
          row[head * size + half + i] = second * cosine + first * sine;
        }
      }
      return row;
    }
  }
}
