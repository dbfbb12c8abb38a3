package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.Printable;
import io.nvrar.tools.bench.setup.Implementation;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Writes the results as CSV and as JSON, one row per cell, with the same names in both. */
public final class ResultFiles {
  private static final Gson GSON =
      new GsonBuilder()
          .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
          .setPrettyPrinting()
          .disableHtmlEscaping()
          .create();

  private static final String RESULTS = "results";

  private ResultFiles() {}

  /** Checks that the file of an option can be written. */
  public static void check(String option, Path file) throws IOException {
    Path directory = file.toAbsolutePath().getParent();
    if (directory == null || Files.isDirectory(file)) {
      throw new IOException(String.format(Locale.ROOT, "%s: %s is a directory", option, file));
    }
    if (!Files.isDirectory(directory)) {
      throw new IOException(
          String.format(Locale.ROOT, "%s: there is no directory %s", option, directory));
    }
    if (!Files.isWritable(Files.exists(file) ? file : directory)) {
      throw new IOException(String.format(Locale.ROOT, "%s: %s cannot be written", option, file));
    }
  }

  /**
   * A run of the command.
   *
   * @param machine in words
   * @param command as it was given
   */
  public record Run(String machine, String command, List<Row> rows) {}

  // The names of the file.
  private record Document(String machine, String command, List<Row> results) {}

  public static void csv(Path file, List<Row> rows) throws IOException {
    AtomicFiles.replace(
        file,
        Stream.concat(Stream.of(Row.HEADER), rows.stream().map(Row::toCsv))
            .map(line -> line + "\n")
            .collect(Collectors.joining()));
  }

  public static void json(Path file, Run run) throws IOException {
    AtomicFiles.replace(file, GSON.toJson(new Document(run.machine, run.command, run.rows)));
  }

  /**
   * Reads what {@link #json} has written.
   *
   * @throws IOException if the file is not one of those, with the reason as one sentence
   */
  public static Run read(Path file) throws IOException {
    if (!Files.isRegularFile(file)) {
      throw new IOException("there is no file " + file);
    }
    try (Reader in = Files.newBufferedReader(file, UTF_8)) {
      JsonElement document = JsonParser.parseReader(in);
      if (!document.isJsonObject()) {
        throw new IllegalArgumentException("it is no JSON object");
      }
      return new Run(
          text(document.getAsJsonObject(), "machine"),
          text(document.getAsJsonObject(), "command"),
          rows(document.getAsJsonObject().get(RESULTS)));
    } catch (JsonParseException | CharacterCodingException e) {
      throw notOurs(file, "it is no JSON", e);
    } catch (IllegalArgumentException e) {
      throw notOurs(file, String.valueOf(e.getMessage()), e);
    }
  }

  private static IOException notOurs(Path file, String reason, Exception cause) {
    return new IOException(
        String.format(Locale.ROOT, "%s is not a file of nvrar bench --json: %s", file, reason),
        cause);
  }

  private static List<Row> rows(@Nullable JsonElement results) {
    if (results == null || !results.isJsonArray() || results.getAsJsonArray().isEmpty()) {
      throw new IllegalArgumentException("it has no results");
    }
    List<Row> rows = new ArrayList<>();
    for (JsonElement one : results.getAsJsonArray()) {
      String place = String.format(Locale.ROOT, "result %d", rows.size() + 1);
      if (!one.isJsonObject()) {
        throw new IllegalArgumentException(place + " is no JSON object");
      }
      try {
        rows.add(row(one.getAsJsonObject()));
      } catch (NumberFormatException e) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "a number of %s cannot be read (%s)", place, e.getMessage()),
            e);
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException(
            String.format(Locale.ROOT, "%s %s", place, e.getMessage()), e);
      }
    }
    return rows;
  }

  private static Row row(JsonObject result) {
    List<String> fields = new ArrayList<>();
    for (String name : Row.HEADER.split(",", -1)) {
      fields.add(text(result, name).replace(',', ' '));
    }
    Row row = Row.parse(String.join(",", fields));
    if (Implementation.named(row.implementation()).isEmpty()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "is of '%s', which this version does not know", row.implementation()));
    }
    boolean possible =
        DoubleStream.of(
                row.timeUs(), row.timeMinUs(), row.timeMaxUs(), row.algbwGbps(), row.busbwGbps())
            .allMatch(value -> value >= 0 && value < Double.POSITIVE_INFINITY);
    if (!possible || row.bytes() < 0 || row.processes() < 1) {
      throw new IllegalArgumentException("has a time or a size that cannot be");
    }
    return row;
  }

  private static String text(JsonObject object, String name) {
    @Nullable JsonElement value = object.get(name);
    if (value == null || !value.isJsonPrimitive()) {
      throw new IllegalArgumentException("has no " + name);
    }
    return Printable.of(value.getAsString()); // it is printed to a terminal
  }
}
