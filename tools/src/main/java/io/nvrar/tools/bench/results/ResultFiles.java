package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** Writes the results as CSV and as JSON, one row per cell, with the same names in both. */
public final class ResultFiles {
  private static final Gson GSON =
      new GsonBuilder()
          .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
          .setPrettyPrinting()
          .disableHtmlEscaping()
          .create();

  private ResultFiles() {}

  private record Document(String machine, String command, List<Row> results) {}

  public static void csv(Path file, List<Row> rows) throws IOException {
    Files.write(
        file, Stream.concat(Stream.of(Row.HEADER), rows.stream().map(Row::toCsv)).toList(), UTF_8);
  }

  public static void json(Path file, String machine, String command, List<Row> rows)
      throws IOException {
    try (Writer out = Files.newBufferedWriter(file, UTF_8)) {
      GSON.toJson(new Document(machine, command, rows), out);
    }
  }
}
