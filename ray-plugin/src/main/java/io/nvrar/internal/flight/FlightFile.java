package io.nvrar.internal.flight;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.PrivateDirectory;
import io.nvrar.internal.TempDirectory;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.CharacterCodingException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Flight records in a directory: one file for a failed group and host, written by the first member
 * to get there. If there are more than {@link #MAX_FILES}, the oldest are deleted, but none of the
 * group that is written: the hosts of a large group may share the directory.
 */
public final class FlightFile {
  /** The system property that names the directory. */
  public static final String DIRECTORY_PROPERTY = "nvrar.flight.dir";

  /** How many files are kept, or more if one group has more. */
  public static final int MAX_FILES = 16;

  private static final Logger LOG = LoggerFactory.getLogger(FlightFile.class);

  private static final String SUFFIX = ".jsonl";
  private static final String CLAIM_SUFFIX = ".claim";
  private static final String TEMP_SUFFIX = ".tmp";
  private static final int MAX_NAME_CHARS = 64;
  private static final long MAX_BYTES = 256L << 20;

  /**
   * How long the first member may take before another one writes instead, because it may have been
   * killed.
   */
  private static final long CLAIM_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
  private static final long LEFTOVER_SECONDS = TimeUnit.HOURS.toSeconds(1);

  private final Path directory;
  private final String name;

  /** How the names of the files of the group's other hosts begin. */
  private final String ofGroup;

  /** The file of a group on a host. Does not access the file system. */
  public FlightFile(Path directory, String group, String groupId, String host) {
    this.directory = directory;
    ofGroup = safe(group) + "-" + safe(groupId) + "-";
    name = ofGroup + safe(host) + SUFFIX;
  }

  /** The directory of this process. */
  public static Path directoryOfProcess() {
    return ofProcess(DIRECTORY_PROPERTY, "nvrar-flight-");
  }

  /**
   * The newest flight record that a group has written on this host.
   *
   * @throws IllegalArgumentException if there is none; the message is one sentence
   */
  public static Path newest() {
    Path directory = directoryOfProcess();
    Map<Path, FileTime> records = new HashMap<>();
    try (Stream<Path> files = Files.list(directory)) {
      files
          .filter(file -> file.getFileName().toString().endsWith(SUFFIX))
          .forEach(file -> records.put(file, modified(file)));
    } catch (IOException | UncheckedIOException e) {
      LOG.debug("{} cannot be searched for flight records", directory, e);
    }
    return records.entrySet().stream()
        .max(Map.Entry.comparingByValue())
        .map(Map.Entry::getKey)
        .orElseThrow(
            () ->
                new IllegalArgumentException(
                    String.format(
                        Locale.ROOT,
                        "there is no flight record in %s, where groups of this host write theirs unless %s names another directory",
                        directory,
                        DIRECTORY_PROPERTY)));
  }

  /** What a property names, or a directory of this user in the temporary one. */
  static Path ofProcess(String property, String prefix) {
    String set = System.getProperty(property, "");
    return set.isEmpty()
        ? TempDirectory.get().resolve(prefix + safe(System.getProperty("user.name", "unknown")))
        : Path.of(set).toAbsolutePath();
  }

  private static String safe(String text) {
    return safe(text, MAX_NAME_CHARS);
  }

  /** A part of a file's name that stands for any text. */
  static String safe(String text, int most) {
    String safe = text.replaceAll("[^A-Za-z0-9_-]", "_");
    if (safe.length() <= most) {
      return safe;
    }
    String digest =
        String.format(Locale.ROOT, "-%08x", text.hashCode()); // the end may be what tells two apart
    return safe.substring(0, most - digest.length()) + digest;
  }

  /** The path of the file, which may not exist yet. */
  public Path path() {
    return directory.resolve(name);
  }

  /**
   * Writes the file, unless another member has written or is writing it. It appears atomically.
   *
   * @param record called only if this member writes the file
   * @throws IOException if the directory is not private or cannot be written
   */
  public void write(Supplier<FlightRecord> record) throws IOException {
    PrivateDirectory.ensure(directory);
    Path claim = directory.resolve("." + name + CLAIM_SUFFIX);
    boolean first = claim(claim);
    if (!first && awaitOther(claim)) {
      return;
    }
    Path temp = Files.createTempFile(directory, "." + name, TEMP_SUFFIX);
    try {
      try (Writer out = Files.newBufferedWriter(temp, UTF_8)) {
        FlightJson.write(record.get(), out);
      }
      AtomicFiles.publish(temp, path()); // if another member was faster, its record is as good
    } finally {
      Files.deleteIfExists(temp);
      Files.deleteIfExists(claim);
    }
    try {
      prune();
    } catch (IOException | UncheckedIOException e) { // the file has been written nevertheless
      LOG.debug("{} could not be searched for old flight records", directory, e);
    }
  }

  /**
   * Writes a record to a file of the user's as {@link AtomicFiles#replace} does.
   *
   * @throws IOException if it cannot be written, or is no regular file
   */
  public static void write(FlightRecord record, Path file) throws IOException {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new IOException(file + " is no regular file");
    }
    AtomicFiles.replace(file, out -> FlightJson.write(record, out));
  }

  private boolean claim(Path claim) throws IOException {
    try {
      Files.newOutputStream(claim, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE).close();
      if (!Files.exists(path(), LinkOption.NOFOLLOW_LINKS)) {
        return true;
      }
      Files.deleteIfExists(claim); // a member that has finished has deleted its own claim
      return false;
    } catch (FileAlreadyExistsException e) {
      return false;
    }
  }

  /** Whether the member with the claim has written the file: it gives up the claim after that. */
  private boolean awaitOther(Path claim) {
    long deadline = System.nanoTime() + CLAIM_NANOS;
    while (!Files.exists(path(), LinkOption.NOFOLLOW_LINKS)
        && Files.exists(claim, LinkOption.NOFOLLOW_LINKS)
        && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(POLL_NANOS);
    }
    return Files.exists(path(), LinkOption.NOFOLLOW_LINKS);
  }

  private void prune() throws IOException {
    Map<Path, FileTime> records = new HashMap<>();
    Instant leftover = Instant.now().minusSeconds(LEFTOVER_SECONDS);
    try (Stream<Path> files = Files.list(directory)) {
      for (Path file : files.toList()) {
        String fileName = file.getFileName().toString();
        if (fileName.endsWith(SUFFIX)) {
          records.put(file, modified(file)); // once: another process may touch or delete it
        } else if ((fileName.endsWith(CLAIM_SUFFIX) || fileName.endsWith(TEMP_SUFFIX))
            && modified(file).toInstant().isBefore(leftover)) {
          drop(file); // left by a member that was killed while writing
        }
      }
    }
    records.entrySet().stream()
        .filter(record -> !record.getKey().getFileName().toString().startsWith(ofGroup))
        .sorted(Map.Entry.comparingByValue())
        .limit(Math.max(0, records.size() - MAX_FILES))
        .forEach(oldest -> drop(oldest.getKey()));
  }

  /** Deletes a file; a failure must not keep other files from being deleted. */
  private static void drop(Path file) {
    try {
      Files.deleteIfExists(file);
    } catch (IOException e) {
      LOG.debug("{} could not be deleted", file, e);
    }
  }

  private static FileTime modified(Path file) {
    try {
      return Files.getLastModifiedTime(file, LinkOption.NOFOLLOW_LINKS);
    } catch (IOException e) {
      return FileTime.from(Instant.now()); // another process has just deleted it
    }
  }

  /**
   * Reads a file.
   *
   * @throws IllegalArgumentException if there is no such file or it is not a flight record; the
   *     message is one sentence
   */
  public static FlightRecord read(Path file) {
    try {
      if (!Files.isRegularFile(file)) {
        throw new IllegalArgumentException(
            file + (Files.exists(file) ? " is not a file" : " does not exist"));
      }
      if (Files.size(file) > MAX_BYTES) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "%s has %d bytes, a flight record has at most %d",
                file,
                Files.size(file),
                MAX_BYTES));
      }
      try (Reader text = Files.newBufferedReader(file, UTF_8)) {
        return FlightJson.read(text);
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException(file + " is not a flight record: " + e.getMessage(), e);
      }
    } catch (CharacterCodingException e) {
      throw new IllegalArgumentException(file + " is not a flight record: it is no text", e);
    } catch (NoSuchFileException e) {
      throw new IllegalArgumentException(file + " does not exist", e);
    } catch (IOException e) {
      throw new IllegalArgumentException(file + " cannot be read: " + e.getMessage(), e);
    }
  }
}
