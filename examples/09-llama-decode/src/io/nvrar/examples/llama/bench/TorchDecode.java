package io.nvrar.examples.llama.bench;

import com.google.gson.JsonObject;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.tools.bench.measure.MeasuringProgram;
import io.nvrar.tools.bench.measure.PythonTorch;
import io.nvrar.tools.bench.results.ResultLine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** PyTorch's steps of the same shape, by {@code bench/torch_decode.py}. */
public final class TorchDecode {
  private static final int LIMIT_SECONDS = 900;

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
   * @param ours our line of the cell
   */
  public static List<JsonObject> measure(
      Path home, LlamaConfig config, BenchCell cell, int ranks, JsonObject ours)
      throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of("env", "OMP_NUM_THREADS=1", PythonTorch.PYTHON, script(home).toString()));
    Map<String, Integer> sizes = new LinkedHashMap<>();
    sizes.put("--ranks", ranks);
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
    return lines(lines, ours);
  }

  /** The results that the script has written, with the floor of our steps. */
  static List<JsonObject> lines(List<String> written, JsonObject ours) throws IOException {
    List<JsonObject> lines = ResultLine.read(written);
    if (lines.size() == 1) {
      throw new IOException("torch_decode.py has not measured the cell");
    }
    List<JsonObject> results = lines.subList(1, lines.size());
    results.forEach(line -> line.add("floor", ours.get("floor")));
    return results;
  }

  private static Path script(Path home) {
    return home.resolve(Path.of("examples", "09-llama-decode", "bench", "torch_decode.py"));
  }
}
