package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLt;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLtSearch;
import java.util.Locale;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Norms, SwiGLU and large products on a GPU, against float64. */
@Tag("gpu")
final class ChunkKernelsTest extends FastKernelContract {
  private static final float EPSILON = 1e-5f;

  @ParameterizedTest
  @CsvSource({
    "BFLOAT16, 1, 64, true",
    "FLOAT16, 3, 1024, false",
    "BFLOAT16, 70, 1536, false",
    "BFLOAT16, 5, 4096, true",
    "FLOAT16, 2, 2112, true",
    "BFLOAT16, 2, 16384, false"
  })
  void aNormIsThatOfTheSumsAndTheResidual(DataType type, int rows, int hidden, boolean begins) {
    Random random = new Random(hidden);
    float[] sums = random(random, type, rows * hidden, 1);
    float[] residual = random(random, type, rows * hidden, 2);
    float[] gamma = random(random, type, hidden, 1);
    ChunkKernels kernels = new ChunkKernels(gpu, image("prefill"), type, 64, true);
    for (boolean withSquares : new boolean[] {false, true}) {
      DeviceBuffer sumsBuffer = buffer(type, sums);
      DeviceBuffer residualBuffer = buffer(type, begins ? new float[rows * hidden] : residual);
      DeviceBuffer out = output(type, rows * hidden);
      DeviceBuffer squares = output(DataType.FLOAT32, rows * hidden / ChunkKernels.SQUARES);
      kernels.norm(
          stream,
          rows,
          hidden,
          begins,
          sumsBuffer,
          residualBuffer,
          buffer(type, gamma),
          EPSILON,
          out,
          withSquares ? squares : null);
      float[] added = floats(residualBuffer);
      Comparison comparison = new Comparison("the residual");
      for (int i = 0; i < added.length; i++) {
        int at = i;
        double exact = (double) sums[i] + (begins ? 0 : residual[i]);
        comparison.add(
            added[i], exact, roundingError(type) * Math.abs(exact) * 1.01, () -> "element " + at);
      }
      comparison.verify();
      float[] normed = read(out);
      comparison = new Comparison(withSquares ? "the residual times gamma" : "the norm");
      for (int row = 0; row < rows; row++) {
        double mean = 0;
        for (int i = 0; i < hidden; i++) {
          mean += (double) added[row * hidden + i] * added[row * hidden + i] / hidden;
        }
        double scale = withSquares ? 1 : 1 / Math.sqrt(mean + EPSILON);
        for (int i = 0; i < hidden; i++) {
          int at = row * hidden + i;
          double exact = added[at] * scale * gamma[i];
          comparison.add(
              normed[at],
              exact,
              (roundingError(type) * 1.01 + 1e-5) * Math.abs(exact) + 1e-6,
              () -> "element " + at);
        }
      }
      comparison.verify();
      if (withSquares) {
        float[] parts = read(squares);
        for (int part = 0; part < parts.length; part++) {
          double exact = 0;
          for (int i = 0; i < ChunkKernels.SQUARES; i++) {
            float number = added[part * ChunkKernels.SQUARES + i];
            exact += (double) number * number;
          }
          assertThat((double) parts[part])
              .as("squares of part %d", part)
              .isCloseTo(exact, within(1e-5 * exact));
        }
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"BFLOAT16, 1, 64", "FLOAT16, 77, 2112", "BFLOAT16, 3, 14336"})
  void theGateIsThatOfSwiGlu(DataType type, int rows, int width) {
    float[] gateUp = random(new Random(width), type, rows * 2 * width, 3);
    DeviceBuffer out = output(type, rows * width);
    new ChunkKernels(gpu, image("prefill"), type, 128, true)
        .gate(stream, rows, width, buffer(type, gateUp), out);
    float[] actual = read(out);
    Comparison comparison = new Comparison("SwiGLU");
    for (int i = 0; i < actual.length; i++) {
      int at = i;
      double gate = gateUp[i / width * 2 * width + i % width];
      double up = gateUp[(i / width * 2 + 1) * width + i % width];
      double exact = gate / (1 + Math.exp(-gate)) * up;
      comparison.add(
          actual[i],
          exact,
          (roundingError(type) * 1.01 + 1e-5) * Math.abs(exact) + 1e-6,
          () -> "element " + at);
    }
    comparison.verify();
  }

  @ParameterizedTest
  @CsvSource({
    "BFLOAT16, 33, 64, 64",
    "FLOAT16, 64, 192, 1088",
    "BFLOAT16, 100, 1024, 320",
    "BFLOAT16, 300, 2048, 1024",
    "FLOAT16, 129, 448, 4096"
  })
  void largeProductsAreThoseOfFloat64(DataType type, int rows, int features, int columns) {
    CublasLtSearch.Result found = CublasLtSearch.on(gpu, System.getProperty("nvrar.cublaslt"));
    CublasLt library = found.library();
    assumeTrue(library != null, found.problem());
    int padded = LargeProducts.padded(rows);
    Random random = new Random(features);
    float[] x = random(random, type, rows * columns, 1);
    float[] weights = random(random, type, features * columns, 1 / Math.sqrt(columns));
    DeviceBuffer out = output(type, padded * features);
    try (LargeProducts products = new LargeProducts(gpu, Objects.requireNonNull(library), type)) {
      products.multiply(
          stream,
          rows,
          // Padding may be no numbers, which may not reach the rows.
          buffer(type, withNoNumbersBehind(x, padded * columns)),
          columns,
          buffer(type, weights),
          features,
          out);
      stream.synchronize();
    }
    float[] actual = read(out);
    Comparison comparison = new Comparison("the product");
    double[] exact = new double[rows * features];
    double[] magnitudes = new double[rows * features];
    IntStream.range(0, rows)
        .parallel()
        .forEach(
            row -> {
              for (int feature = 0; feature < features; feature++) {
                for (int i = 0; i < columns; i++) {
                  double term = (double) x[row * columns + i] * weights[feature * columns + i];
                  exact[row * features + feature] += term;
                  magnitudes[row * features + feature] += Math.abs(term);
                }
              }
            });
    for (int i = 0; i < exact.length; i++) {
      int at = i;
      comparison.add(
          actual[i],
          exact[i],
          roundingError(type) * Math.abs(exact[i]) * 1.01 + 1e-5 * magnitudes[i],
          () -> String.format(Locale.ROOT, "row %d, feature %d", at / features, at % features));
    }
    comparison.verify();
  }

  @Test
  void aFileThatIsNoCublasLtIsNamed() {
    CublasLtSearch.Result found = CublasLtSearch.on(gpu, "libcuda.so.1");
    assertThat(found.library()).isNull();
    assertThat(found.problem())
        .isEqualTo(
            "no cuBLASLt can be used: libcuda.so.1 is no cuBLASLt that can be used here: it has no cublasLtGetVersion");
  }
}
