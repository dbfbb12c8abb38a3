package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.nvrar.Backend;
import io.nvrar.device.Devices;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.engine.cuda.Prefill.Choice;
import io.nvrar.examples.llama.engine.cuda.driver.CublasLtSearch;
import io.nvrar.examples.llama.engine.cuda.driver.Gpu;
import io.nvrar.examples.llama.weights.ReferenceModel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestReporter;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Prompts that pass in chunks, by cuBLASLt, give what they give elsewhere. Its file is the one that
 * is found, or that of {@code -Dnvrar.cublaslt}.
 */
@Tag("gpu")
final class PrefillTest {
  /** As that of the fast path in {@link CudaParityTest}. */
  private static final double TOLERANCE = 5e-2;

  private static final int TOKENS = 24;
  private static final String LIBRARY = System.getProperty("nvrar.cublaslt");
  private static final CudaEngine.Settings PLAIN = settings(false, Choice.SLICES, 128);
  private static final CudaEngine.Settings SLICES = settings(true, Choice.SLICES, 128);

  // Of several chunks, and of parts of them.
  private static final int[] LENGTHS = {301, 1, 64, 57};

  @BeforeEach
  void requireLibrary() {
    assumeTrue(GpuRanks.areDataCentreGpus(), "the fast kernels are for other GPUs");
    CublasLtSearch.Result found =
        CublasLtSearch.on(new Gpu(Devices.open(Backend.CUDA, 0)), LIBRARY);
    assumeTrue(found.library() != null, found.problem());
  }

  private static CudaEngine.Settings settings(boolean fast, Choice choice, int chunk) {
    return new CudaEngine.Settings(
        fast, true, Prefill.of(choice, choice == Choice.SLICES ? null : LIBRARY, chunk).from(1));
  }

  private static CudaEngine.Settings chunks(int rows) {
    return settings(true, Choice.CUBLASLT, rows);
  }

  @ParameterizedTest(name = "{0} on {1} ranks, chunks of {2}")
  @CsvSource({
    "test-models/seeded64, 1, 64",
    "test-models/seeded64, 2, 7",
    "test-models/seeded128, 1, 7",
    "test-models/seeded128, 2, 64"
  })
  void logitsAreThoseOfTransformers(String name, int worldSize, int chunk, TestReporter reporter)
      throws Exception {
    ReferenceModel model = ReferenceModel.of(name);
    int[][] prompts = {model.prompt()};
    int[][] forced = {Arrays.copyOf(model.generated(), TOKENS)};
    for (List<float[]> rank : logits(model, worldSize, chunks(chunk), prompts, forced)) {
      double error = model.relativeError(rank);
      reporter.publishEntry(name + " on " + worldSize + " ranks, relative error", "" + error);
      assertThat(error).isLessThan(TOLERANCE);
    }
  }

  /**
   * Of prompts of many lengths, and of the steps that follow them with tokens that are given, so
   * that one near tie does not change all that comes behind it.
   */
  @ParameterizedTest(name = "{0} on {1} ranks, chunks of {2}")
  @CsvSource({
    "test-models/seeded64, 1, 128",
    "test-models/seeded64, 2, 1024",
    "test-models/seeded128, 1, 1024",
    "test-models/seeded128, 2, 100"
  })
  void promptsAndTheStepsBehindThemGiveWhatFloat32Gives(
      String name, int worldSize, int chunk, TestReporter reporter) throws Exception {
    ReferenceModel model = ReferenceModel.of(name);
    int[][] prompts = prompts(LENGTHS);
    int[][] forced = prompts(IntStream.of(LENGTHS).map(i -> TOKENS).toArray());
    List<float[]> exact = logits(model, 1, PLAIN, prompts, forced).get(0);
    List<float[]> slices = logits(model, worldSize, SLICES, prompts, forced).get(0);
    List<List<float[]>> ranks = logits(model, worldSize, chunks(chunk), prompts, forced);
    String what =
        String.format(Locale.ROOT, "%s on %d ranks, chunks of %d: ", name, worldSize, chunk);
    double ofSlices = greatestError(slices, exact);
    double ofChunks = greatestError(ranks.get(0), exact);
    reporter.publishEntry(what + "relative error of slices", "" + ofSlices);
    reporter.publishEntry(what + "relative error of chunks", "" + ofChunks);
    reporter.publishEntry(
        what + "same greatest logits as float32, of " + exact.size(),
        String.format(
            Locale.ROOT,
            "%d by slices, %d by chunks",
            agreeing(slices, exact),
            agreeing(ranks.get(0), exact)));
    assertThat(ofChunks).isLessThan(TOLERANCE);
    // Each rounds elsewhere; neither may be much worse.
    assertThat(ofChunks).isLessThan(2 * ofSlices + 1e-3);
    for (List<float[]> rank : ranks) {
      for (int i = 0; i < rank.size(); i++) {
        assertThat(rank.get(i)).as("the same bits on all ranks").isEqualTo(ranks.get(0).get(i));
      }
    }
  }

  @Test
  void theLengthOfAChunkChangesLittle() throws Exception {
    ReferenceModel model = ReferenceModel.of("test-models/seeded128");
    int[][] prompts = prompts(LENGTHS);
    int[][] forced = prompts(IntStream.of(LENGTHS).map(i -> 1).toArray());
    List<float[]> whole = logits(model, 1, chunks(1024), prompts, forced).get(0);
    for (int chunk : new int[] {33, 64, 300}) {
      assertThat(greatestError(logits(model, 1, chunks(chunk), prompts, forced).get(0), whole))
          .as("chunks of %d", chunk)
          .isLessThan(2e-2);
    }
  }

  /**
   * Of each rank: logits of the prompts' last tokens, then of each step's, sequence by sequence.
   */
  private static List<List<float[]>> logits(
      ReferenceModel model,
      int worldSize,
      CudaEngine.Settings settings,
      int[][] prompts,
      int[][] forced)
      throws Exception {
    return GpuRanks.run(
        worldSize,
        model.config(),
        model::tensors,
        settings,
        (engine, isFast) -> {
          assertThat(isFast).isEqualTo(settings.fast());
          return logits(engine, prompts, forced);
        });
  }

  private static List<float[]> logits(LlamaEngine engine, int[][] prompts, int[][] forced) {
    int[] capacities =
        IntStream.range(0, prompts.length).map(i -> prompts[i].length + forced[i].length).toArray();
    engine.begin(capacities);
    TokenBatch batch = new TokenBatch(engine.maxRows());
    List<float[]> rows = new ArrayList<>();
    for (int sequence = 0; sequence < prompts.length; sequence++) {
      for (int i = 0; i < prompts[sequence].length; i++) {
        if (batch.isFull()) {
          rows.addAll(step(engine, batch));
        }
        batch.add(sequence, prompts[sequence][i], i == prompts[sequence].length - 1);
      }
    }
    rows.addAll(step(engine, batch));
    for (int i = 0; i < forced[0].length - 1; i++) {
      for (int sequence = 0; sequence < prompts.length; sequence++) {
        batch.add(sequence, forced[sequence][i], true);
      }
      rows.addAll(step(engine, batch));
    }
    return rows;
  }

  private static List<float[]> step(LlamaEngine engine, TokenBatch batch) {
    float[][] logits = new float[batch.logitsRows()][engine.config().vocabularySize()];
    engine.forward(batch, logits);
    batch.clear();
    return List.of(logits);
  }

  private static double greatestError(List<float[]> rows, List<float[]> exact) {
    assertThat(rows).hasSameSizeAs(exact);
    double difference = 0;
    double magnitude = 0;
    for (int row = 0; row < rows.size(); row++) {
      for (int i = 0; i < rows.get(row).length; i++) {
        difference = Math.max(difference, Math.abs((double) rows.get(row)[i] - exact.get(row)[i]));
        magnitude = Math.max(magnitude, Math.abs(exact.get(row)[i]));
      }
    }
    return difference / magnitude;
  }

  private static long agreeing(List<float[]> rows, List<float[]> exact) {
    return IntStream.range(0, rows.size())
        .filter(row -> greatest(rows.get(row)) == greatest(exact.get(row)))
        .count();
  }

  private static int greatest(float[] row) {
    int best = 0;
    for (int i = 1; i < row.length; i++) {
      best = row[i] > row[best] ? i : best;
    }
    return best;
  }

  private static int[][] prompts(int... lengths) {
    return IntStream.range(0, lengths.length)
        .mapToObj(
            sequence ->
                IntStream.range(0, lengths[sequence])
                    .map(i -> 2 + (int) ((1 + sequence + i * 7919L) % 4000))
                    .toArray())
        .toArray(int[][]::new);
  }
}
