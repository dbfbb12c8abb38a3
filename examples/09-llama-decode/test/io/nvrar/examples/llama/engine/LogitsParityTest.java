package io.nvrar.examples.llama.engine;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.CollectiveGroup;
import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.Shard;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
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
  private static final Path LESSON = Path.of("09-llama-decode");
  private static final double TOLERANCE = 1e-3;

  static Stream<Arguments> modelsAndWorldSizes() {
    return Stream.of(
            "test-models/gqa8",
            "test-models/linear6",
            "test-models/llama3rope7",
            "test-models/mha5",
            "model/tiny-english")
        .flatMap(
            name -> {
              int heads = LlamaConfig.read(LESSON.resolve(name)).heads();
              return IntStream.rangeClosed(1, 8)
                  .filter(worldSize -> heads % worldSize == 0)
                  .mapToObj(worldSize -> Arguments.of(name, worldSize));
            });
  }

  @ParameterizedTest(name = "{0} on {1} ranks")
  @MethodSource("modelsAndWorldSizes")
  void logitsAndTokensAreThoseOfTransformers(String name, int worldSize) throws Exception {
    Path directory = LESSON.resolve(name);
    JsonObject reference =
        JsonParser.parseString(Files.readString(directory.resolve("reference.json")))
            .getAsJsonObject();
    int[] prompt = ints(reference.getAsJsonArray("prompt_ids"));
    int[] expected = ints(reference.getAsJsonArray("generated_ids"));
    float[] referenceLogits = readNpy(directory.resolve("logits.npy"));
    DecodeRequest request =
        new DecodeRequest(new int[][] {prompt}, expected.length, true, true, Sampling.greedy());

    List<Decoded> ranks = RankThreads.run(worldSize, group -> decode(directory, group, request));

    for (Decoded rank : ranks) {
      assertThat(rank.tokens)
          .containsExactly(Arrays.stream(expected).boxed().toArray(Integer[]::new));
      assertThat(relativeError(rank.logits, referenceLogits)).isLessThan(TOLERANCE);
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

  private static Decoded decode(Path directory, CollectiveGroup group, DecodeRequest request) {
    LlamaConfig config = LlamaConfig.read(directory);
    Shard shard = Shard.of(config, group.rank(), group.worldSize());
    LlamaWeights weights = LlamaWeights.read(directory, config, shard, bytes -> {});
    Decoded decoded = new Decoded(new ArrayList<>(), new ArrayList<>());
    try (LlamaEngine engine = new CpuEngine(weights, group)) {
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

  private static double relativeError(List<float[]> rows, float[] reference) {
    double difference = 0;
    double magnitude = 0;
    int at = 0;
    for (float[] row : rows) {
      for (float logit : row) {
        difference = Math.max(difference, Math.abs((double) logit - reference[at]));
        magnitude = Math.max(magnitude, Math.abs(reference[at]));
        at++;
      }
    }
    assertThat(at).isEqualTo(reference.length);
    return difference / magnitude;
  }

  private static int[] ints(JsonArray array) {
    return IntStream.range(0, array.size()).map(i -> array.get(i).getAsInt()).toArray();
  }

  private static float[] readNpy(Path file) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    bytes.position(10 + bytes.getShort(8));
    float[] numbers = new float[bytes.remaining() / Float.BYTES];
    bytes.asFloatBuffer().get(numbers);
    return numbers;
  }
}
