package io.nvrar.tools.tune;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import com.google.gson.JsonSyntaxException;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A measurer that writes each result to a file as it comes, and has those that an earlier run has
 * written there.
 */
final class Journal implements Measurer {
  private static final Gson GSON = new Gson();

  private record Line(@Nullable Point point, @Nullable Timing timing) {}

  private final Measurer measurer;
  private final Map<Point, Timing> known;
  private final Writer file;

  private Journal(Measurer measurer, Map<Point, Timing> known, Writer file) {
    this.measurer = measurer;
    this.known = known;
    this.file = file;
  }

  /** Where the journal of a table is. */
  static Path of(Path table) {
    return table.resolveSibling(table.getFileName() + ".journal");
  }

  /**
   * Begins a journal.
   *
   * @param run what is measured, and on what; a journal of anything else is not continued
   * @param resume whether to continue the one that is there
   * @throws IllegalArgumentException if it is of something else
   */
  static Journal open(Path path, String run, boolean resume, Measurer measurer) throws IOException {
    Map<Point, Timing> known = resume && Files.exists(path) ? read(path, run) : Map.of();
    Writer file =
        Files.newBufferedWriter(
            path,
            UTF_8,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE);
    Journal journal = new Journal(measurer, new HashMap<>(known), file);
    try {
      journal.write(run);
      for (Map.Entry<Point, Timing> each : known.entrySet()) {
        journal.write(GSON.toJson(new Line(each.getKey(), each.getValue())));
      }
    } catch (IOException e) {
      file.close();
      throw e;
    }
    return journal;
  }

  private static Map<Point, Timing> read(Path path, String run) throws IOException {
    List<String> lines = Files.readAllLines(path, UTF_8);
    if (lines.isEmpty() || !lines.get(0).equals(run)) {
      throw new IllegalArgumentException(
          "the journal %s is of another measurement (%s); without --resume it is begun again"
              .formatted(path, lines.isEmpty() ? "none" : lines.get(0)));
    }
    Map<Point, Timing> known = new HashMap<>();
    for (String text : lines.subList(1, lines.size())) {
      Line line;
      try {
        line = GSON.fromJson(text, Line.class);
      } catch (JsonSyntaxException e) {
        break; // The end of a run that was killed while it wrote.
      }
      if (line == null || line.point() == null || line.timing() == null) {
        break;
      }
      known.put(line.point(), line.timing());
    }
    return known;
  }

  /** The points that are there already. */
  int size() {
    return known.size();
  }

  @Override
  public Timing measure(Point point) throws IOException {
    Timing there = known.get(point);
    if (there != null) {
      return there;
    }
    Timing timing = measurer.measure(point);
    known.put(point, timing);
    write(GSON.toJson(new Line(point, timing)));
    return timing;
  }

  private void write(String line) throws IOException {
    file.write(line);
    file.write('\n');
    file.flush();
  }

  @Override
  public void close() throws IOException {
    try {
      file.close();
    } finally {
      measurer.close();
    }
  }
}
