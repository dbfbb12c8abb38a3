package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
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
  private static final double FAST_TOLERANCE = 2e-2;

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
    DecodeRequest request =
        new DecodeRequest(new int[][] {model.prompt()}, TOKENS, true, true, Sampling.greedy());

    List<Decoded> ranks =
        GpuRanks.run(
            worldSize,
            model.config(),
            model::tensors,
            new CudaEngine.Settings(fast, true),
            (engine, isFast) -> decode(engine, isFast, request));

    for (Decoded rank : ranks) {
      assertThat(rank.isFast).as("whether the fast kernels take it").isEqualTo(fast);
      double error = model.relativeError(rank.logits);
      assertThat(error)
          .as("relative error of the logits; tokens %s for %s", rank.tokens, expected)
          .isLessThan(fast ? FAST_TOLERANCE : TOLERANCE);
      assertThat(rank.bits()).as("same bits on all ranks").isEqualTo(ranks.get(0).bits());
      if (!fast) {
        assertThat(rank.tokens)
            .containsExactly(Arrays.stream(expected).boxed().toArray(Integer[]::new));
      }
    }
  }

  private record Decoded(boolean isFast, List<Integer> tokens, List<float[]> logits) {
    List<Integer> bits() {
      return logits.stream()
          .flatMap(row -> IntStream.range(0, row.length).mapToObj(i -> row[i]))
          .map(Float::floatToRawIntBits)
          .toList();
    }
  }

  private static Decoded decode(LlamaEngine engine, boolean isFast, DecodeRequest request) {
    Decoded decoded = new Decoded(isFast, new ArrayList<>(), new ArrayList<>());
    DecodeLoop.run(
        engine,
        request,
        (sequence, token, logits) -> {
          decoded.tokens.add(token);
          decoded.logits.add(logits.clone());
        });
    return decoded;
  }
}
