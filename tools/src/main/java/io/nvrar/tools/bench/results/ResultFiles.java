package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Writes the results as CSV and as JSON, one row per cell. */
public final class ResultFiles {
  private ResultFiles() {}

  public static void csv(Path file, List<Row> rows) throws IOException {
    Files.write(
        file, Stream.concat(Stream.of(Row.HEADER), rows.stream().map(Row::toCsv)).toList(), UTF_8);
  }

  public static void json(Path file, String machine, String command, List<Row> rows)
      throws IOException {
    String results = rows.stream().map(Row::toJson).collect(Collectors.joining(",\n"));
    Files.writeString(
        file,
        "{\n\"machine\": %s,\n\"command\": %s,\n\"results\": [\n%s\n]\n}\n"
            .formatted(quoted(machine), quoted(command), results),
        UTF_8);
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        quoted.append('\\').append(c);
      } else if (c < ' ') {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }
}
