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
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
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
        return "its script divides all heads, the width and the vocabulary evenly, and %d is no multiple of %d"
            .formatted(size, ranks);
      }
    }
    Path script = script(home);
    return Files.isReadable(script) ? PythonTorch.problem() : script + " is not here";
  }

  /**
   * Measures cells of the same steps, blocks and warm-up as ours.
   *
   * @param cells what is measured
   * @param ours our row of each
   */
  public static List<BenchRow> measure(
      Path home, LlamaConfig config, List<BenchCell> cells, List<BenchRow> ours)
      throws IOException, InterruptedException {
    BenchCell first = cells.get(0);
    List<String> command =
        List.of(
            "env",
            "OMP_NUM_THREADS=1",
            PythonTorch.PYTHON,
            script(home).toString(),
            "--ranks",
            "" + ours.get(0).ranks(),
            "--hidden",
            "" + config.hiddenSize(),
            "--layers",
            "" + config.layers(),
            "--heads",
            "" + config.heads(),
            "--kv-heads",
            "" + config.keyValueHeads(),
            "--head-dim",
            "" + config.headSize(),
            "--width",
            "" + config.intermediateSize(),
            "--vocabulary",
            "" + config.vocabularySize(),
            "--batch",
            different(cells, BenchCell::batch),
            "--context",
            different(cells, BenchCell::context),
            "--steps",
            "" + first.steps(),
            "--repeats",
            "" + first.repeats(),
            "--warmup",
            "" + first.warmup());
    List<String> lines =
        new MeasuringProgram(command, List.of("torch_decode"), LIMIT_SECONDS)
            .run("--json", line -> {});
    return rows(String.join("", lines), ours);
  }

  /** The rows of what the script has written. */
  static List<BenchRow> rows(String json, List<BenchRow> ours) throws IOException {
    try {
      JsonObject parsed = JsonParser.parseString(json).getAsJsonObject();
      String name = parsed.get("version").getAsString();
      List<BenchRow> rows = new ArrayList<>();
      for (BenchRow row : ours) {
        rows.addAll(rows(name, parsed.getAsJsonArray("cells"), row));
      }
      return rows;
    } catch (JsonParseException
        | IllegalStateException
        | NullPointerException
        | NumberFormatException
        | UnsupportedOperationException
        | IndexOutOfBoundsException e) {
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
    @Nullable Double alone = without == null ? null : StepBench.median(millis(without));
    List<BenchRow> rows = new ArrayList<>();
    byAllReduce.forEach(
        (allReduce, one) ->
            rows.add(
                ours.of(name, allReduce, millis(one), alone, one.get("problem").getAsString())));
    return rows;
  }

  private static double[] millis(JsonObject one) {
    return StreamSupport.stream(one.getAsJsonArray("step_millis").spliterator(), false)
        .mapToDouble(JsonElement::getAsDouble)
        .toArray();
  }

  private static String different(List<BenchCell> cells, Function<BenchCell, Integer> size) {
    return cells.stream()
        .map(size)
        .distinct()
        .map(Object::toString)
        .collect(Collectors.joining(","));
  }

  private static Path script(Path home) {
    return home.resolve(Path.of("examples", "09-llama-decode", "bench", "torch_decode.py"));
  }
}
