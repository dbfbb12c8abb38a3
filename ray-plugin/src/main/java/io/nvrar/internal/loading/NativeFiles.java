package io.nvrar.internal.loading;

import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.PrivateDirectory;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A set of files from the class path that must be in one directory to be loaded: a library and
 * those that it finds through {@code $ORIGIN}, or the JNI library of a third party that would
 * otherwise be extracted unsafely.
 *
 * <p>The directory's name holds the hash of the contents, so different builds do not collide, and
 * any number of JVMs may extract concurrently: each file appears atomically, by a rename.
 */
public final class NativeFiles {
  public static final String TEMP_SUFFIX = ".tmp";

  private static final Logger LOG = LoggerFactory.getLogger(NativeFiles.class);

  /** Hex digits of the SHA-256 in the directory's name. */
  private static final int HASH_DIGITS = 16;

  /** A temporary file older than this was left by a JVM that was killed. */
  private static final Duration TEMP_MAX_AGE = Duration.ofHours(1);

  private final String label;
  private final SortedMap<String, byte[]> contents;

  /**
   * Creates a set from contents by file name.
   *
   * @param label the first part of the directory's name, such as a version
   */
  NativeFiles(String label, Map<String, byte[]> contents) {
    this.label = label;
    this.contents = new TreeMap<>(contents);
  }

  /**
   * Reads files from the class path.
   *
   * @param folder their folder, without a leading slash
   * @throws NoSuchFileException if one of them is not on the class path
   * @throws IOException if they cannot be read, for example because the process has no free file
   *     descriptor
   */
  public static NativeFiles fromClassPath(
      ClassLoader loader, String label, String folder, List<String> names) throws IOException {
    Map<String, byte[]> contents = new TreeMap<>();
    for (String name : names) {
      String resource = folder + "/" + name;
      URL found = loader.getResource(resource);
      if (found == null) {
        // A class loader silently skips a jar that it cannot open.
        Files.newByteChannel(Path.of("/dev/null")).close();
        throw new NoSuchFileException(resource, null, "not on the class path");
      }
      try (InputStream in = found.openStream()) {
        contents.put(name, in.readAllBytes());
      }
    }
    return new NativeFiles(label, contents);
  }

  /** The name of the directory: label and content hash. */
  public String directoryName() {
    MessageDigest sha256 = sha256();
    contents.forEach(
        (name, bytes) -> {
          sha256.update((name + "\0" + bytes.length + "\0").getBytes(StandardCharsets.UTF_8));
          sha256.update(bytes);
        });
    return label + "-" + HexFormat.of().formatHex(sha256.digest()).substring(0, HASH_DIGITS);
  }

  /**
   * Makes sure that all files exist in {@code root/directoryName()} with exactly the right
   * contents. The files are not deleted afterwards.
   *
   * @return that directory
   * @throws IOException if it cannot be written, or other users could write to it
   */
  public Path extractTo(Path root) throws IOException {
    PrivateDirectory.ensure(root);
    Path directory = root.resolve(directoryName());
    PrivateDirectory.ensure(directory);
    boolean written = false;
    for (Map.Entry<String, byte[]> file : contents.entrySet()) {
      Path target = directory.resolve(file.getKey());
      if (!isIntact(target, file.getValue())) {
        write(target, file.getValue());
        written = true;
      }
    }
    if (written) {
      sync(directory);
      deleteOldTemporaries(directory);
    }
    return directory;
  }

  private static boolean isIntact(Path file, byte[] expected) throws IOException {
    if (!Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    if (Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
        && Files.size(file) == expected.length
        && Arrays.equals(Files.readAllBytes(file), expected)) {
      return true;
    }
    LOG.warn("{} does not hold what was extracted there; it is replaced", file);
    return false;
  }

  // By a rename, not by writing in place: a process that has mapped the old file keeps it, and no
  // process sees a partial file.
  private static void write(Path target, byte[] bytes) throws IOException {
    Path directory = target.resolveSibling("");
    Path temporary = Files.createTempFile(directory, "." + target.getFileName(), TEMP_SUFFIX);
    try {
      // Not by a channel, which an interrupt of the thread would close.
      try (FileOutputStream out = new FileOutputStream(temporary.toFile())) {
        out.write(bytes);
        out.getFD().sync();
      }
      Files.setPosixFilePermissions(temporary, PosixFilePermissions.fromString("r-x------"));
      if (!AtomicFiles.publish(temporary, target) && !isIntact(target, bytes)) {
        Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
      }
    } finally {
      Files.deleteIfExists(temporary);
    }
  }

  private static void sync(Path directory) throws IOException {
    boolean interrupted = false;
    try {
      while (true) {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
          channel.force(true);
          return;
        } catch (ClosedByInterruptException e) {
          interrupted |= Thread.interrupted();
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static void deleteOldTemporaries(Path directory) throws IOException {
    FileTime oldest = FileTime.from(Instant.now().minus(TEMP_MAX_AGE));
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + TEMP_SUFFIX)) {
      for (Path file : files) {
        try {
          if (Files.getLastModifiedTime(file).compareTo(oldest) < 0) {
            Files.deleteIfExists(file);
          }
        } catch (NoSuchFileException e) {
          LOG.debug("{} was removed by another process", file);
        }
      }
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
