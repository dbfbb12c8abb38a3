package io.nvrar.examples.llama.weights;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;

/** A model of the tests with what transformers computes from it, see model/references.py. */
public final class ReferenceModel {
  // Surefire runs the tests in the module's directory; a host of GPUs has a checkout's home.
  private static final Path LESSON =
      Path.of(System.getProperty("nvrar.home", "../.."), "examples", "09-llama-decode");

  /** Models with all their files, and the one that is shipped. */
  public static final List<String> SMALL =
      List.of(
          "test-models/gqa8",
          "test-models/linear6",
          "test-models/llama3rope7",
          "test-models/mha5",
          "test-models/qwen6",
          "test-models/mistral4",
          "model/tiny-english");

  /** Models whose weights are made from a seed: of the sizes that fast kernels take. */
  public static final List<String> SEEDED =
      List.of("test-models/seeded64", "test-models/seeded128");

  private final Path directory;
  private final LlamaConfig config;
  private final JsonObject reference;
  private final float[] logits;

  private ReferenceModel(Path directory) throws IOException {
    this.directory = directory;
    config = LlamaConfig.read(directory);
    reference =
        JsonParser.parseString(Files.readString(directory.resolve("reference.json")))
            .getAsJsonObject();
    logits = npy(directory.resolve("logits.npy"));
  }

  /** Reads the model of one of these names. */
  public static ReferenceModel of(String name) throws IOException {
    return new ReferenceModel(LESSON.resolve(name));
  }

  /** What its config.json says. */
  public LlamaConfig config() {
    return config;
  }

  /** A configuration that ends at this token. */
  public static LlamaConfig withEnd(LlamaConfig config, int token) {
    return new LlamaConfig(
        config.vocabularySize(),
        config.hiddenSize(),
        config.intermediateSize(),
        config.layers(),
        config.heads(),
        config.keyValueHeads(),
        config.headSize(),
        config.maxPositions(),
        config.normEpsilon(),
        config.rope(),
        config.tiedEmbeddings(),
        config.queryKeyValueBias(),
        config.attentionOutputBias(),
        config.mlpBias(),
        List.of(token));
  }

  /** Its weights. */
  public TensorSource tensors() {
    return reference.has("weights_seed")
        ? new RandomTensors(config, reference.get("weights_seed").getAsLong(), bytes -> {})
        : Checkpoint.open(directory);
  }

  /** The prompt. */
  public int[] prompt() {
    return ints("prompt_ids");
  }

  /** The tokens that follow it, each the one with the greatest logit. */
  public int[] generated() {
    return ints("generated_ids");
  }

  /**
   * The largest difference between rows of logits and those that the first generated tokens were
   * chosen from, relative to the largest of those. Of a large vocabulary some columns are compared.
   *
   * @param rows whole rows of logits, as many as wanted
   */
  public double relativeError(List<float[]> rows) {
    int step = reference.has("column_step") ? reference.get("column_step").getAsInt() : 1;
    double difference = 0;
    double magnitude = 0;
    int at = 0;
    for (float[] row : rows) {
      if (row.length != config.vocabularySize()) {
        throw new IllegalArgumentException("a row of " + row.length + " logits");
      }
      for (int column = 0; column < row.length; column += step) {
        // A logit that is no number makes the result so, and that is below no tolerance.
        difference = Math.max(difference, Math.abs((double) row[column] - logits[at]));
        magnitude = Math.max(magnitude, Math.abs(logits[at]));
        at++;
      }
    }
    return difference / magnitude;
  }

  private int[] ints(String key) {
    JsonArray array = reference.getAsJsonArray(key);
    return IntStream.range(0, array.size()).map(i -> array.get(i).getAsInt()).toArray();
  }

  private static float[] npy(Path file) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    bytes.position(10 + bytes.getShort(8));
    float[] numbers = new float[bytes.remaining() / Float.BYTES];
    bytes.asFloatBuffer().get(numbers);
    return numbers;
  }
}
