package io.nvrar.tools.tune;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import com.google.gson.JsonSyntaxException;
import io.nvrar.internal.Printable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A measurer that writes each result to a file as it comes, and has those that an earlier run has
 * written there.
 */
final class Journal implements Measurer {
  private static final Gson GSON = new Gson();

  private static final int MAX_QUOTED_CHARS = 200;

  private record Line(@Nullable Point point, @Nullable Timing timing) {}

  private final Measurer measurer;
  private final Map<Point, Timing> known = new HashMap<>();
  private final Path path;
  private final FileChannel file;

  private Journal(Measurer measurer, Path path, FileChannel file) {
    this.measurer = measurer;
    this.path = path;
    this.file = file;
  }

  /** Where the journal of a table is. */
  static Path of(Path table) {
    return table.resolveSibling(table.getFileName() + ".journal");
  }

  /**
   * Begins a journal. It is locked until it is closed: of two runs for one table, the one that ends
   * last would throw away the other one's rules.
   *
   * @param run what is measured, and on what; a journal of anything else is not continued
   * @param resume whether to continue the one that is there
   * @throws IllegalArgumentException if it is of something else, or of a run that goes on
   */
  static Journal open(Path path, String run, boolean resume, Measurer measurer) throws IOException {
    FileChannel file =
        FileChannel.open(
            path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    try {
      lock(path, file);
      Journal journal = new Journal(measurer, path, file);
      // What is there is kept where it is: a run that is killed while it begins must not lose it.
      long kept = resume && file.size() > 0 ? journal.read(run) : 0;
      file.truncate(kept).position(kept);
      if (kept == 0) {
        journal.write(run);
      }
      return journal;
    } catch (IOException | RuntimeException e) {
      file.close();
      throw e;
    }
  }

  private static void lock(Path path, FileChannel file) throws IOException {
    FileLock lock;
    try {
      lock = file.tryLock();
    } catch (OverlappingFileLockException e) {
      lock = null; // by this process
    }
    if (lock == null) {
      throw new IllegalArgumentException(
          "another nvrar tune measures for the same table: it has locked " + path);
    }
  }

  /** Returns the length of what can be kept. */
  private long read(String run) throws IOException {
    String text = new String(Files.readAllBytes(path), ISO_8859_1); // a character for each byte
    int end = text.indexOf('\n');
    String head = new String((end < 0 ? text : text.substring(0, end)).getBytes(ISO_8859_1), UTF_8);
    if (!head.equals(run)) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "the journal %s is of another measurement (%s); without --resume it is begun again",
              path,
              Printable.of(head, MAX_QUOTED_CHARS)));
    }
    int kept = end < 0 ? 0 : end + 1;
    for (end = text.indexOf('\n', kept); end >= 0; end = text.indexOf('\n', kept)) {
      if (!add(text.substring(kept, end))) {
        break; // The end of a run that was killed while it wrote.
      }
      kept = end + 1;
    }
    return kept;
  }

  private boolean add(String text) {
    try {
      @Nullable Line line = GSON.fromJson(text, Line.class);
      Point point = line == null ? null : line.point();
      Timing timing = line == null ? null : line.timing();
      // Gson leaves what a line lacks at 0, which would be the fastest of all.
      if (point == null || timing == null || !(timing.us() > 0 && Double.isFinite(timing.us()))) {
        return false;
      }
      known.put(point, timing);
      return true;
    } catch (JsonSyntaxException e) {
      return false;
    }
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
    ByteBuffer bytes = ByteBuffer.wrap((line + '\n').getBytes(UTF_8));
    try {
      while (bytes.hasRemaining()) {
        file.write(bytes);
      }
    } catch (IOException e) {
      throw new IOException(
          String.format(Locale.ROOT, "the journal %s cannot be written: %s", path, e.getMessage()),
          e);
    }
  }

  /** Deletes it: the table is written, and nothing is left to continue. */
  void delete() throws IOException {
    Files.deleteIfExists(path);
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
