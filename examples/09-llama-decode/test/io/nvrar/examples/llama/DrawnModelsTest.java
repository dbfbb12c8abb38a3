package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.CollectiveGroup;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.text.LlamaTokenizer;
import io.nvrar.examples.llama.text.StreamingDetokenizer;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.ModelSource;
import io.nvrar.examples.llama.weights.ReferenceModel;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Model directories that model/drawn_models.py has drawn are decoded as transformers does, or
 * refused in a sentence that says what is wrong with them.
 */
final class DrawnModelsTest {
  // The kept ones, or those of a run of that script: an archive or a directory.
  private static final Path DRAWN =
      Path.of(System.getProperty("nvrar.drawn.models", "test-models/drawn.zip")).toAbsolutePath();

  @TempDir private static Path unpacked;

  private static final double TOLERANCE = 1e-3;

  static List<Named<Path>> models() throws IOException {
    Path models = DRAWN;
    if (Files.isRegularFile(DRAWN)) {
      unpack(DRAWN, unpacked);
      models = unpacked;
    }
    try (Stream<Path> directories = Files.list(models)) {
      return directories.sorted().map(it -> Named.of(it.getFileName().toString(), it)).toList();
    }
  }

  private static void unpack(Path archive, Path folder) throws IOException {
    try (FileSystem files = FileSystems.newFileSystem(archive);
        Stream<Path> entries = Files.walk(files.getPath("/"))) {
      for (Path entry : (Iterable<Path>) entries::iterator) {
        Path target = folder.resolve(entry.toString().substring(1));
        if (Files.isDirectory(entry)) {
          Files.createDirectories(target);
        } else {
          Files.copy(entry, target);
        }
      }
    }
  }

  @ParameterizedTest(name = "draw {0}")
  @MethodSource("models")
  void aDrawnModelIsDecodedAsTransformersDoesOrRefusedInATrueSentence(Path directory)
      throws Exception {
    JsonObject reference = json(directory.resolve("reference.json"));
    List<String> refusals = strings(reference.getAsJsonArray("refusals"));
    try {
      LlamaConfig config = ModelSource.of(directory).config();
      DecodeCommand.check(ModelSource.of(directory), config, null);
      requireTexts(directory, reference);
      if (reference.has("generated_ids")) {
        requireLogits(directory, config);
      } else if (!refusals.isEmpty()) {
        // Weights that are no numbers show only in the logits.
        decode(directory, config, new int[] {1, 2, 3}, 1);
      }
    } catch (ModelException e) {
      String sentence = String.valueOf(e.getMessage());
      assertThat(sentence)
          .hasSizeLessThan(600)
          .matches("(?s).*[.?]")
          .doesNotContain("\n", "Exception", "null");
      if (reference.has("generated_ids") || !refusals.isEmpty()) {
        assertThat(refusals).as(sentence).anyMatch(sentence::contains);
      }
    }
  }

  private static void requireLogits(Path directory, LlamaConfig config) throws Exception {
    ReferenceModel model = ReferenceModel.of(directory.toString());
    int[] expected = model.generated();
    for (int worldSize : new int[] {1, config.heads()}) {
      List<Decoded> ranks =
          RankThreads.run(
              worldSize,
              group -> decode(directory, config, group, model.prompt(), expected.length));
      assertThat(ranks.get(0).tokens)
          .containsExactly(IntStream.of(expected).boxed().toArray(Integer[]::new));
      assertThat(model.relativeError(ranks.get(0).logits)).isLessThan(TOLERANCE);
    }
  }

  private static void requireTexts(Path directory, JsonObject reference) {
    JsonArray texts = reference.getAsJsonArray("texts");
    if (texts.isEmpty()) {
      return;
    }
    try (LlamaTokenizer tokenizer = LlamaTokenizer.read(directory)) {
      for (JsonElement element : texts) {
        JsonObject text = element.getAsJsonObject();
        int[] prompt = tokenizer.encode(text.get("prompt").getAsString());
        StreamingDetokenizer stream = new StreamingDetokenizer(tokenizer::decode, prompt);
        StringBuilder shown = new StringBuilder();
        for (JsonElement token : text.getAsJsonArray("ids")) {
          shown.append(stream.add(token.getAsInt()));
        }
        shown.append(stream.finish());
        assertThat(shown).as(text.toString()).hasToString(text.get("text").getAsString());
      }
    }
  }

  private record Decoded(List<Integer> tokens, List<float[]> logits) {}

  private static void decode(Path directory, LlamaConfig config, int[] prompt, int count)
      throws Exception {
    RankThreads.run(1, group -> decode(directory, config, group, prompt, count));
  }

  private static Decoded decode(
      Path directory, LlamaConfig config, CollectiveGroup group, int[] prompt, int count) {
    DecodeRequest request =
        new DecodeRequest(new int[][] {prompt}, count, true, true, Sampling.greedy());
    Shard shard = Shard.of(config, group.rank(), group.worldSize());
    Decoded decoded = new Decoded(new ArrayList<>(), new ArrayList<>());
    try (TensorSource tensors = ModelSource.of(directory).open(bytes -> {});
        LlamaEngine engine = new CpuEngine(LlamaWeights.read(tensors, config, shard), group)) {
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

  private static JsonObject json(Path file) throws IOException {
    return JsonParser.parseString(Files.readString(file)).getAsJsonObject();
  }

  private static List<String> strings(JsonArray array) {
    List<String> strings = new ArrayList<>();
    array.forEach(element -> strings.add(element.getAsString()));
    return strings;
  }
}
