package io.nvrar.examples.llama.bench;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.tools.bench.measure.MeasuringProgram;
import io.nvrar.tools.bench.measure.PythonTorch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;

/** PyTorch's steps of the same shape, by {@code bench/torch_decode.py}. */
public final class TorchDecode {
  private static final int LIMIT_SECONDS = 900;

  /** What the script calls steps without all-reduces. */
  private static final String NONE = "none";

  private TorchDecode() {}

  /** Why it is left out; empty if it is not. */
  public static String problem(Path home, LlamaConfig config, int ranks) {
    if (config.queryKeyValueBias() || config.attentionOutputBias() || config.mlpBias()) {
      return "its script knows no biases";
    }
    for (int size :
        new int[] {
          config.heads(), config.keyValueHeads(), config.intermediateSize(), config.vocabularySize()
        }) {
      if (size % ranks != 0) {
        return String.format(
            Locale.ROOT,
            "its script divides all heads, the width and the vocabulary evenly, and %d is no multiple of %d",
            size,
            ranks);
      }
    }
    Path script = script(home);
    return Files.isReadable(script) ? PythonTorch.problem() : script + " is not here";
  }

  /**
   * Measures the same steps, blocks and warm-up as ours, in processes of their own: what fails in a
   * cell does not harm the next.
   *
   * @param cell what is measured
   * @param ours our row of it
   */
  public static List<BenchRow> measure(Path home, LlamaConfig config, BenchCell cell, BenchRow ours)
      throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of("env", "OMP_NUM_THREADS=1", PythonTorch.PYTHON, script(home).toString()));
    Map<String, Integer> sizes = new LinkedHashMap<>();
    sizes.put("--ranks", ours.ranks());
    sizes.put("--hidden", config.hiddenSize());
    sizes.put("--layers", config.layers());
    sizes.put("--heads", config.heads());
    sizes.put("--kv-heads", config.keyValueHeads());
    sizes.put("--head-dim", config.headSize());
    sizes.put("--width", config.intermediateSize());
    sizes.put("--vocabulary", config.vocabularySize());
    sizes.put("--batch", cell.batch());
    sizes.put("--context", cell.context());
    sizes.put("--steps", cell.steps());
    sizes.put("--repeats", cell.repeats());
    sizes.put("--warmup", cell.warmup());
    sizes.forEach((option, size) -> command.addAll(List.of(option, size.toString())));
    List<String> lines =
        new MeasuringProgram(command, List.of("torch_decode"), LIMIT_SECONDS)
            .run("--json", line -> {});
    return rows(String.join("", lines), ours);
  }

  /** The rows of what the script has written. */
  static List<BenchRow> rows(String json, BenchRow ours) throws IOException {
    try {
      JsonObject parsed = JsonParser.parseString(json).getAsJsonObject();
      List<BenchRow> rows =
          rows(parsed.get("version").getAsString(), parsed.getAsJsonArray("cells"), ours);
      if (rows.isEmpty()) {
        throw new IllegalStateException("it has not measured the cell");
      }
      return rows;
    } catch (JsonParseException
        | ClassCastException
        | IllegalStateException
        | NullPointerException
        | NumberFormatException
        | UnsupportedOperationException e) {
      throw new IOException("torch_decode.py wrote no results that this version knows", e);
    }
  }

  private static List<BenchRow> rows(String name, JsonArray measured, BenchRow ours) {
    Map<String, JsonObject> byAllReduce = new TreeMap<>();
    for (JsonElement element : measured) {
      JsonObject one = element.getAsJsonObject();
      if (one.get("batch").getAsInt() == ours.batch()
          && one.get("context").getAsInt() == ours.context()) {
        byAllReduce.put(one.get("all_reduce").getAsString(), one);
      }
    }
    // In a world of one that is the whole step.
    JsonObject without = ours.ranks() == 1 ? null : byAllReduce.remove(NONE);
    @Nullable Double bare = without == null ? null : StepBench.median(millis(without));
    List<BenchRow> rows = new ArrayList<>();
    byAllReduce.forEach(
        (allReduce, one) ->
            rows.add(
                ours.of(name, allReduce, millis(one), bare, one.get("problem").getAsString())));
    return rows;
  }

  private static double[] millis(JsonObject one) {
    double[] millis =
        StreamSupport.stream(one.getAsJsonArray("step_millis").spliterator(), false)
            .mapToDouble(JsonElement::getAsDouble)
            .toArray();
    if (millis.length == 0 || !Arrays.stream(millis).allMatch(each -> each > 0 && each < 1e9)) {
      throw new IllegalStateException("a step takes " + Arrays.toString(millis) + " ms");
    }
    return millis;
  }

  private static Path script(Path home) {
    return home.resolve(Path.of("examples", "09-llama-decode", "bench", "torch_decode.py"));
  }
}
