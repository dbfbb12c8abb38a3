package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.weights.ReferenceModel;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The decoder on GPUs agrees with Hugging Face transformers, on however many ranks. */
@Tag("gpu")
final class CudaParityTest {
  /** Of the plain path, which computes in float32 as transformers does. */
  private static final double TOLERANCE = 1e-3;

  /** Of the fast path, whose rows are rounded to 16 bits between the kernels. */
  private static final double FAST_TOLERANCE = 5e-2;

  private static final int TOKENS = 12;

  static Stream<Arguments> modelsAndWorldSizes() throws IOException {
    List<Arguments> all = new ArrayList<>();
    for (String name : ReferenceModel.SMALL) {
      add(all, name, false);
    }
    for (String name : ReferenceModel.SEEDED) {
      add(all, name, false);
      add(all, name, true);
    }
    return all.stream();
  }

  private static void add(List<Arguments> all, String name, boolean fast) throws IOException {
    int heads = ReferenceModel.of(name).config().heads();
    for (int worldSize = 1; worldSize <= 8; worldSize++) {
      if (heads % worldSize == 0) {
        all.add(Arguments.of(name, worldSize, fast));
      }
    }
  }

  @ParameterizedTest(name = "{0} on {1} ranks, fast: {2}")
  @MethodSource("modelsAndWorldSizes")
  void logitsAndTokensAreThoseOfTransformers(String name, int worldSize, boolean fast)
      throws Exception {
    ReferenceModel model = ReferenceModel.of(name);
    int[] expected = Arrays.copyOf(model.generated(), TOKENS);

    List<Decoded> ranks =
        GpuRanks.run(
            worldSize,
            model.config(),
            model::tensors,
            new CudaEngine.Settings(fast, true, Prefill.automatic()),
            (engine, isFast) -> decode(engine, isFast, model.prompt(), expected));

    for (Decoded rank : ranks) {
      assertThat(rank.isFast).as("whether the fast kernels take it").isEqualTo(fast);
      assertThat(model.relativeError(rank.logits))
          .as("relative error of the logits")
          .isLessThan(fast ? FAST_TOLERANCE : TOLERANCE);
      assertThat(rank.bits()).as("same bits on all ranks").isEqualTo(ranks.get(0).bits());
      if (!fast) {
        assertThat(rank.greatest()).containsExactly(expected);
      }
    }
  }

  private record Decoded(boolean isFast, List<float[]> logits) {
    List<Integer> bits() {
      return logits.stream()
          .flatMap(row -> IntStream.range(0, row.length).mapToObj(i -> row[i]))
          .map(Float::floatToRawIntBits)
          .toList();
    }

    int[] greatest() {
      return logits.stream().mapToInt(Decoded::greatest).toArray();
    }

    private static int greatest(float[] row) {
      int best = 0;
      for (int i = 1; i < row.length; i++) {
        best = row[i] > row[best] ? i : best;
      }
      return best;
    }
  }

  // Gives the engine the expected tokens, whatever it would have chosen: where two logits are
  // nearly
  // the same, rounding decides, and all that follows would differ.
  private static Decoded decode(LlamaEngine engine, boolean isFast, int[] prompt, int[] expected) {
    engine.begin(new int[] {prompt.length + expected.length - 1});
    TokenBatch batch = new TokenBatch(engine.maxRows());
    List<float[]> rows = new ArrayList<>();
    for (int i = 0; i < prompt.length; i++) {
      batch.add(0, prompt[i], i == prompt.length - 1);
    }
    for (int token : expected) {
      float[][] logits = new float[1][engine.config().vocabularySize()];
      engine.forward(batch, logits);
      rows.add(logits[0]);
      batch.clear();
      batch.add(0, token, true);
    }
    return new Decoded(isFast, rows);
  }
}
