package io.nvrar.tools.bench.results;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.OptionNames;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Makes and reads lines of results, which {@code native/bench/README.md} describes. */
public final class ResultLine {
  public static final String OUT_OF_PLACE = "out";
  public static final String IN_PLACE = "in";
  private static final String KIND = "kind";
  private static final String RUN = "run";

  private ResultLine() {}

  /** The line about a run. */
  public static JsonObject ofRun(String machine, String command, Map<String, String> versions) {
    JsonObject line = new JsonObject();
    line.addProperty(KIND, RUN);
    line.addProperty("machine", machine);
    line.addProperty("command", command);
    JsonObject all = new JsonObject();
    versions.forEach(all::addProperty);
    line.add("versions", all);
    return line;
  }

  /** Whether a line is about a run. */
  public static boolean isOfRun(JsonObject line) {
    return line.get(KIND).getAsString().equals(RUN);
  }

  /** The result of one size, with the times of its batches on the slowest rank. */
  public static JsonObject of(
      Implementation implementation,
      Settings settings,
      CollectiveValues problem,
      String placement,
      Mode mode,
      List<Double> batchesUs,
      long wrong) {
    TimedCollective collective = problem.collective();
    JsonObject shape = shape(settings.name(), settings);
    shape.addProperty("mode", OptionNames.of(mode));
    shape.addProperty("placement", placement);
    shape.addProperty(
        "type", collective == TimedCollective.BARRIER ? "none" : OptionNames.of(problem.type()));
    shape.addProperty("op", collective.reduces() ? OptionNames.of(problem.op()) : "none");
    shape.addProperty("root", collective.hasRoot() ? problem.root() : -1);
    shape.addProperty(
        "algorithm",
        collective == TimedCollective.ALL_REDUCE ? OptionNames.of(settings.algorithm()) : "none");
    shape.addProperty("bytes", problem.bytes());
    shape.addProperty("count", problem.count());
    JsonObject line =
        of(settings.fused() == null ? "collective" : "fused", implementation.toString(), shape);
    addTimes(line, "us", batchesUs);
    line.addProperty("iterations", settings.iterationsOf(problem.bytes()));
    line.addProperty("wrong", wrong);
    return line;
  }

  /** The cost of an implementation's group. */
  public static JsonObject ofGroup(
      Implementation implementation, Settings settings, double createUs, long deviceBytes) {
    JsonObject line = of("group", implementation.toString(), shape("group", settings));
    addTimes(line, "us", List.of(createUs));
    line.addProperty("device_bytes", deviceBytes);
    return line;
  }

  private static JsonObject shape(String name, Settings settings) {
    JsonObject shape = new JsonObject();
    shape.addProperty("name", name);
    shape.addProperty("processes", settings.processes());
    if (settings.ranksPerNode() > 0) {
      shape.addProperty("ranks_per_node", settings.ranksPerNode());
    }
    if (settings.links() > 0) {
      shape.addProperty("links", settings.links());
    }
    shape.addProperty("backend", OptionNames.of(settings.backend()));
    addHosts(shape, settings);
    return shape;
  }

  private static void addHosts(JsonObject shape, Settings settings) {
    if (settings.hosts() > 1) {
      shape.addProperty("hosts", settings.hosts());
    }
  }

  /** The begin of a line of any kind. */
  public static JsonObject of(String kind, String library, JsonObject shape) {
    JsonObject line = new JsonObject();
    line.addProperty(KIND, kind);
    line.addProperty("library", library);
    line.add("shape", shape);
    return line;
  }

  /** Adds the times of batches. */
  public static void addTimes(JsonObject line, String unit, List<Double> batches) {
    line.addProperty("unit", unit);
    line.addProperty("median", median(batches));
    line.addProperty("least", batches.stream().min(Double::compare).orElseThrow());
    line.addProperty("most", batches.stream().max(Double::compare).orElseThrow());
    line.addProperty("repeats", batches.size());
  }

  public static double median(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    int half = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(half)
        : (sorted.get(half - 1) + sorted.get(half)) / 2;
  }

  /**
   * Reads the lines of a program.
   *
   * @throws IOException if one is no such line
   */
  public static List<JsonObject> read(List<String> lines) throws IOException {
    try {
      List<JsonObject> read =
          lines.stream().map(JsonParser::parseString).map(JsonElement::getAsJsonObject).toList();
      if (read.isEmpty() || !isOfRun(read.get(0))) {
        throw new IllegalStateException("the first line is not about a run");
      }
      return read;
    } catch (JsonParseException
        | IllegalStateException
        | NullPointerException
        | UnsupportedOperationException e) {
      throw new IOException(String.format(Locale.ROOT, "results that are none: %s", e), e);
    }
  }

  /** Adds to a program's result what the program does not know: the number of hosts. */
  public static JsonObject withHosts(JsonObject line, Settings settings) {
    if (!isOfRun(line)) {
      addHosts(line.getAsJsonObject("shape"), settings);
    }
    return line;
  }
}
