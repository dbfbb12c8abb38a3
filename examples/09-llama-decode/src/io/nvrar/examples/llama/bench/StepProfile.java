package io.nvrar.examples.llama.bench;

import com.google.gson.JsonObject;
import io.nvrar.examples.llama.engine.cuda.StepTrace;
import io.nvrar.tools.trace.ChromeTrace;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Where the time of a step goes: for each rank when its kernels end, and each takes from the end of
 * the one before to its own. Kernels that overlap with the one before are so shown by what they
 * take longer than it.
 *
 * @param cell the steps
 * @param stepMillis of a step without stamps
 * @param ranks the trace of each rank, on the clock of its GPU from the beginning of its step
 */
public record StepProfile(BenchCell cell, double stepMillis, List<StepTrace> ranks) {
  private static final double MICROS = 1e3;

  private static final int KERNELS = 0;
  private static final int LAYERS = 1;

  /** Writes it in the format of Chrome's and Perfetto's trace viewers. */
  public void write(Path file) throws IOException {
    JsonObject about = new JsonObject();
    about.addProperty("batch", cell.batch());
    about.addProperty("context", cell.context());
    about.addProperty("step_us_without_stamps", stepMillis * MICROS);
    about.addProperty("step_us_with_stamps", length(ranks.get(0)));
    ChromeTrace.write(file, about, this::addTo);
  }

  private void addTo(ChromeTrace trace) throws IOException {
    for (int rank = 0; rank < ranks.size(); rank++) {
      trace.process(rank, "rank " + rank);
      trace.track(rank, KERNELS, "kernels");
      trace.track(rank, LAYERS, "layers");
      add(trace, rank, ranks.get(rank));
    }
  }

  /** What the kernels of rank 0 take together, by what they do. */
  public String sentence() {
    StepTrace trace = ranks.get(0);
    Map<String, Double> sums = new LinkedHashMap<>();
    for (int i = 1; i < trace.size(); i++) {
      sums.merge(trace.name(i), trace.end(i) - trace.end(i - 1), Double::sum);
    }
    StringBuilder text = new StringBuilder();
    text.append(
        String.format(
            Locale.ROOT,
            "At batch %d and context %d a step with stamps takes %.0f us on rank 0, and %.0f us without:",
            cell.batch(),
            cell.context(),
            length(trace),
            stepMillis * MICROS));
    sums.entrySet().stream()
        .sorted(Map.Entry.<String, Double>comparingByValue().reversed())
        .forEach(
            sum ->
                text.append(
                    String.format(
                        Locale.ROOT,
                        " %s %.1f (%.0f %%),",
                        sum.getKey(),
                        sum.getValue(),
                        100 * sum.getValue() / length(trace))));
    text.setCharAt(text.length() - 1, '.');
    return text.toString();
  }

  private static double length(StepTrace trace) {
    return trace.end(trace.size() - 1);
  }

  private static void add(ChromeTrace to, int rank, StepTrace trace) throws IOException {
    int layerBegin = 0;
    for (int i = 1; i < trace.size(); i++) {
      int layer = trace.layer(i);
      add(to, rank, KERNELS, trace.name(i), trace.end(i - 1), trace.end(i), layer);
      if (layer != trace.layer(i - 1)) {
        layerBegin = i - 1;
      }
      boolean isLast = i + 1 == trace.size() || trace.layer(i + 1) != layer;
      if (layer >= 0 && isLast) {
        add(to, rank, LAYERS, "layer " + layer, trace.end(layerBegin), trace.end(i), layer);
      }
    }
  }

  private static void add(
      ChromeTrace to, int rank, int track, String name, double begin, double end, int layer)
      throws IOException {
    JsonObject arguments = new JsonObject();
    if (layer >= 0) {
      arguments.addProperty("layer", layer);
    }
    to.slice(rank, track, name, begin, end - begin, layer >= 0 ? arguments : null);
  }
}
