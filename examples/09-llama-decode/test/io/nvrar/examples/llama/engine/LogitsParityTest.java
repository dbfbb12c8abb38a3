package io.nvrar.examples.llama.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveGroup;
import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.ReferenceModel;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The decoder agrees with Hugging Face transformers, on however many ranks. */
final class LogitsParityTest {
  private static final double TOLERANCE = 1e-3;
  private static final int TOKENS = 12;

  static Stream<Arguments> modelsAndWorldSizes() throws IOException {
    List<Arguments> all = new ArrayList<>();
    for (String name : ReferenceModel.SMALL) {
      int heads = ReferenceModel.of(name).config().heads();
      for (int worldSize = 1; worldSize <= 8; worldSize++) {
        if (heads % worldSize == 0) {
          all.add(Arguments.of(name, worldSize));
        }
      }
    }
    // These take seconds each.
    for (String name : ReferenceModel.SEEDED) {
      all.add(Arguments.of(name, 1));
      all.add(Arguments.of(name, 8));
    }
    return all.stream();
  }

  @ParameterizedTest(name = "{0} on {1} ranks")
  @MethodSource("modelsAndWorldSizes")
  void logitsAndTokensAreThoseOfTransformers(String name, int worldSize) throws Exception {
    ReferenceModel model = ReferenceModel.of(name);
    int[] expected = Arrays.copyOf(model.generated(), TOKENS);
    DecodeRequest request =
        new DecodeRequest(new int[][] {model.prompt()}, TOKENS, true, true, Sampling.greedy());

    List<Decoded> ranks = RankThreads.run(worldSize, group -> decode(model, group, request));

    for (Decoded rank : ranks) {
      assertThat(rank.tokens)
          .containsExactly(Arrays.stream(expected).boxed().toArray(Integer[]::new));
      assertThat(model.relativeError(rank.logits)).isLessThan(TOLERANCE);
      assertThat(rank.bits()).as("same bits on all ranks").isEqualTo(ranks.get(0).bits());
    }
  }

  private record Decoded(List<Integer> tokens, List<float[]> logits) {
    List<Integer> bits() {
      return logits.stream()
          .flatMap(row -> IntStream.range(0, row.length).mapToObj(i -> row[i]))
          .map(Float::floatToRawIntBits)
          .toList();
    }
  }

  private static Decoded decode(
      ReferenceModel model, CollectiveGroup group, DecodeRequest request) {
    Shard shard = Shard.of(model.config(), group.rank(), group.worldSize());
    Decoded decoded = new Decoded(new ArrayList<>(), new ArrayList<>());
    try (TensorSource tensors = model.tensors();
        LlamaEngine engine =
            new CpuEngine(LlamaWeights.read(tensors, model.config(), shard), group)) {
      DecodeLoop.run(
          engine,
          request,
          (sequence, token, logits) -> {
            decoded.tokens.add(token);
            decoded.logits.add(logits.clone());
          });
    }
    return decoded;
  }
}
