package io.nvrar.examples.llama.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.tools.bench.plots.PlotDirectory;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The results of a run, as text and in files.
 *
 * @param command what was run
 * @param model what was decoded
 * @param gpu the GPUs' model
 * @param ranks how many, each with a GPU
 * @param kernels fast or plain
 * @param weightBytes what all ranks together have loaded
 * @param loadSeconds in which time
 * @param bandwidth bytes that a GPU reads in a second
 * @param isBandwidthMeasured whether this run has measured that, or the user has said it
 * @param firstTokens how long prompts took to their first tokens
 * @param results of all cells that were measured
 * @param failures of those that were not
 */
public record BenchReport(
    String command,
    String model,
    String gpu,
    int ranks,
    String kernels,
    long weightBytes,
    double loadSeconds,
    double bandwidth,
    boolean isBandwidthMeasured,
    List<FirstToken> firstTokens,
    List<BenchRow> results,
    List<BenchFailure> failures) {

  private static final Gson GSON =
      new GsonBuilder()
          .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
          .serializeNulls()
          .setPrettyPrinting()
          .disableHtmlEscaping()
          .create();

  private static final double GIGA = 1e9;
  private static final double TERA = 1e12;
  private static final double MILLIS = 1e3;

  private static final List<String> COLUMNS =
      List.of(
          "step of",
          "all-reduce",
          "batch",
          "context",
          "ms/step",
          "least",
          "most",
          "tokens/s",
          "floor ms",
          "% of floor",
          "ms without",
          "all-reduces %",
          "tokens");

  private static final List<String> FIRST_TOKEN_COLUMNS =
      List.of("prompt", "prefill", "ms to the first token");

  /** Our row of a cell, if that was measured. */
  public Optional<BenchRow> rowOf(BenchCell cell) {
    return results.stream()
        .filter(
            row ->
                row.isWhollyOurs()
                    && row.batch() == cell.batch()
                    && row.context() == cell.context())
        .findFirst();
  }

  /** The same with more rows. */
  public BenchReport with(List<BenchRow> more) {
    return with(joined(results, more), failures);
  }

  /** The same with one more failure. */
  public BenchReport with(BenchFailure failure) {
    return with(results, joined(failures, List.of(failure)));
  }

  private static <T> List<T> joined(List<T> some, List<T> more) {
    return Stream.concat(some.stream(), more.stream()).toList();
  }

  /** What has not been measured, or is wrong in what has; empty if nothing is. */
  public String problem() {
    for (BenchFailure failure : failures) {
      return failure.sentence();
    }
    for (BenchRow row : results) {
      if (row.isOurs() && !row.problem().isEmpty()) {
        return String.format(
            Locale.ROOT,
            "At batch %d and context %d%s %s.",
            row.batch(),
            row.context(),
            row.isWhollyOurs() ? "" : row.isWithNccl() ? " with NCCL's all-reduces" : " drawing",
            row.problem());
      }
    }
    return "";
  }

  private BenchReport with(List<BenchRow> rows, List<BenchFailure> notMeasured) {
    return new BenchReport(
        command,
        model,
        gpu,
        ranks,
        kernels,
        weightBytes,
        loadSeconds,
        bandwidth,
        isBandwidthMeasured,
        firstTokens,
        rows,
        notMeasured);
  }

  /** Sentences, then a table. */
  public void print(PrintWriter out) {
    sentences().forEach(out::println);
    for (List<List<String>> table : tables()) {
      out.println();
      print(table, out);
    }
  }

  private static void print(List<List<String>> lines, PrintWriter out) {
    for (List<String> line : lines) {
      StringBuilder text = new StringBuilder();
      for (int column = 0; column < line.size(); column++) {
        int at = column;
        int width = lines.stream().mapToInt(each -> each.get(at).length()).max().orElse(0);
        text.append(
            String.format(
                Locale.ROOT, "%s%s  ", " ".repeat(width - line.get(at).length()), line.get(at)));
      }
      out.println(text.toString().stripTrailing());
    }
  }

  /** As Markdown. */
  public String markdown() {
    StringBuilder text = new StringBuilder();
    text.append("By\n\n```\n").append(command).append("\n```\n\n");
    text.append(String.join(" ", sentences())).append("\n\n");
    for (List<List<String>> table : tables()) {
      int columns = table.get(0).size();
      for (int line = 0; line < table.size(); line++) {
        text.append("| ").append(String.join(" | ", table.get(line))).append(" |\n");
        if (line == 0) {
          text.append('|').append(String.join("|", Collections.nCopies(columns, "---:")));
          text.append("|\n");
        }
      }
      text.append('\n');
    }
    return text.toString();
  }

  // Lines of cells, of which the first is the head. A single first token is said in a sentence.
  private List<List<List<String>>> tables() {
    List<List<List<String>>> tables = new ArrayList<>();
    if (firstTokens.size() > 1) {
      List<List<String>> lines = new ArrayList<>(List.of(FIRST_TOKEN_COLUMNS));
      for (FirstToken first : firstTokens) {
        lines.add(
            List.of(
                format("%d", first.promptTokens()),
                first.prefill(),
                format("%.1f", first.seconds() * MILLIS)));
      }
      tables.add(lines);
    }
    List<List<String>> lines = new ArrayList<>(List.of(COLUMNS));
    results.forEach(row -> lines.add(cells(row)));
    tables.add(lines);
    return tables;
  }

  /** All of it as one JSON object. */
  public void writeJson(Path file) throws IOException {
    Files.writeString(file, GSON.toJson(this) + "\n", UTF_8);
  }

  /**
   * Reads what {@link #writeJson} has written.
   *
   * @throws ModelException if there is no such file or it is something else, in one sentence
   */
  public static BenchReport read(Path file) {
    try {
      BenchReport report = GSON.fromJson(Files.readString(file), BenchReport.class);
      if (report == null
          || Stream.of(report.command, report.model, report.gpu, report.firstTokens, report.results)
              .anyMatch(Objects::isNull)
          || report.failures == null) {
        throw new ModelException(file + " is not what decode-bench --json writes.");
      }
      return report;
    } catch (IOException e) {
      throw new ModelException(String.format(Locale.ROOT, "%s cannot be read: %s", file, e));
    } catch (JsonParseException e) {
      throw new ModelException(file + " is not what decode-bench --json writes.");
    }
  }

  /** A picture for each context, as PNG and SVG. */
  public void draw(Path directory) throws IOException {
    PlotDirectory.write(directory, DecodePlots.of(this));
  }

  /** The cells as CSV, under the names that they have in JSON. */
  public void writeCsv(Path file) throws IOException {
    List<String> lines = new ArrayList<>();
    for (BenchRow row : results) {
      JsonObject fields = GSON.toJsonTree(row).getAsJsonObject();
      if (lines.isEmpty()) {
        lines.add(String.join(",", fields.keySet()));
      }
      lines.add(
          fields.asMap().values().stream().map(BenchReport::csv).collect(Collectors.joining(",")));
    }
    Files.write(file, lines, UTF_8);
  }

  private static String csv(JsonElement field) {
    String text = field.isJsonNull() ? "" : field.getAsString();
    return text.contains(",") ? '"' + text.replace('"', '\'') + '"' : text;
  }

  private List<String> sentences() {
    List<String> sentences = new ArrayList<>();
    sentences.add(
        format(
            "%s on %d GPU%s %s, by the %s kernels: %.2f GB loaded in %.1f s, %.2f GB/s.",
            model,
            ranks,
            ranks == 1 ? "" : "s",
            gpu,
            kernels,
            weightBytes / GIGA,
            loadSeconds,
            weightBytes / GIGA / loadSeconds));
    sentences.add(
        format(
            "The floor is that of %.2f TB/s, %s.",
            bandwidth / TERA,
            isBandwidthMeasured
                ? "which the slowest GPU reads by a kernel that does nothing else"
                : "as was said"));
    if (firstTokens.size() == 1) {
      FirstToken first = firstTokens.get(0);
      sentences.add(
          format(
              "The first token of a prompt of %d comes after %.1f ms (prefill: %s).",
              first.promptTokens(), first.seconds() * MILLIS, first.prefill()));
    }
    for (BenchRow ours : results.stream().filter(BenchRow::isWhollyOurs).toList()) {
      results.stream()
          .filter(row -> row.isWithNcclBeside(ours) && row.problem().isEmpty())
          .forEach(
              row ->
                  sentences.add(
                      format(
                          "At batch %d and context %d a step takes %.2f of the same with NCCL's all-reduces.",
                          ours.batch(), ours.context(), ours.millis() / row.millis())));
      results.stream()
          .filter(row -> row.isBeside(ours))
          .min(Comparator.comparingDouble(BenchRow::millis))
          .ifPresent(
              best ->
                  sentences.add(
                      format(
                          "At batch %d and context %d a step takes %.2f of the fastest of %s, that with %s.",
                          ours.batch(),
                          ours.context(),
                          ours.millis() / best.millis(),
                          best.implementation(),
                          best.allReduce())));
    }
    failures.forEach(failure -> sentences.add(failure.sentence()));
    return sentences;
  }

  private static List<String> cells(BenchRow row) {
    return List.of(
        row.implementation(),
        row.allReduce(),
        format("%d", row.batch()),
        format("%d", row.context()),
        format("%.3f", row.millis()),
        format("%.3f", row.leastMillis()),
        format("%.3f", row.mostMillis()),
        format("%.1f", row.tokensPerSecond()),
        format("%.3f", row.floorMillis()),
        format("%.1f", row.percentOfFloor()),
        optional("%.3f", row.withoutMillis()),
        optional("%.1f", row.allReducePercent()),
        row.problem().isEmpty() ? "ok" : "WRONG");
  }

  private static String optional(String format, @Nullable Double value) {
    return value == null ? "-" : format(format, value);
  }

  private static String format(String format, Object... values) {
    return String.format(Locale.ROOT, format, values);
  }
}
