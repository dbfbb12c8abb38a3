package io.nvrar.internal;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Publishes files atomically: a file appears under its name complete or not at all. */
public final class AtomicFiles {
  /** How the names of files end that {@link #replace} has not finished. */
  public static final String TEMP_SUFFIX = ".tmp";

  private static final Logger LOG = LoggerFactory.getLogger(AtomicFiles.class);

  private AtomicFiles() {}

  /**
   * Gives a finished file its final name, unless a file of that name exists, which is kept. The
   * temporary name may remain; the caller deletes it.
   *
   * <p>On a file system without hard links, if several processes publish at the same time, the file
   * of the last one is kept, not that of the first.
   *
   * @param temporary in the same directory as {@code target}
   * @return whether the file now has its final name
   * @throws IOException if it can be neither linked nor renamed
   */
  public static boolean publish(Path temporary, Path target) throws IOException {
    try {
      // A link is tried first, because it fails where a rename would replace an existing file,
      // which other processes may have opened or mapped.
      Files.createLink(target, temporary);
      return true;
    } catch (FileAlreadyExistsException e) {
      return false;
    } catch (FileSystemException | UnsupportedOperationException e) {
      // A file system without links: Java reports some by UnsupportedOperationException, Linux
      // reports them by EPERM or EOPNOTSUPP.
      LOG.debug("{} cannot be linked and is renamed", temporary, e);
    }
    if (Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
    return true;
  }

  /** Writes the content of a file. */
  public interface Content {
    /** Writes all of it. Does not close the writer. */
    void writeTo(Writer out) throws IOException;
  }

  /** {@link #replace(Path, Content)} with a text. */
  public static void replace(Path file, String text) throws IOException {
    replace(file, out -> out.write(text));
  }

  /**
   * Writes a file of the user's, which is replaced if it exists: by all of the content or, if that
   * fails, not at all. A link stays, and the file that it leads to is replaced or, if there is none
   * yet, written where it will be; a file that exists keeps its permissions. What is no regular
   * file, such as a pipe, or is not in a directory that can be written, is written where it is.
   *
   * @throws IOException if it cannot be written; the message is one sentence with its name
   */
  public static void replace(Path file, Content content) throws IOException {
    try {
      Path place = place(file);
      if (place == null) {
        write(file, content);
        return;
      }
      // Not createTempFile, which would make it private.
      Path temporary =
          place.resolveSibling(
              ".nvrar-" + ProcessHandle.current().pid() + "-" + System.nanoTime() + TEMP_SUFFIX);
      try {
        write(temporary, content, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        if (Files.exists(place)) {
          Files.setPosixFilePermissions(temporary, Files.getPosixFilePermissions(place));
        }
        Files.move(
            temporary, place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } finally {
        Files.deleteIfExists(temporary);
      }
    } catch (FileSystemException e) {
      String why = e.getReason() == null ? e.getClass().getSimpleName() : e.getReason();
      throw new IOException(String.format(Locale.ROOT, "%s cannot be written: %s", file, why), e);
    } catch (IOException e) {
      throw new IOException(
          String.format(Locale.ROOT, "%s cannot be written: %s", file, e.getMessage()), e);
    }
  }

  private static void write(Path file, Content content, OpenOption... options) throws IOException {
    // Unlike Files.newBufferedWriter, this does not fail on half of a character.
    try (Writer out =
        new BufferedWriter(new OutputStreamWriter(Files.newOutputStream(file, options), UTF_8))) {
      content.writeTo(out);
    }
  }

  /**
   * The file to replace, which is the one that a link leads to; null if what is there is written
   * where it is.
   */
  private static @Nullable Path place(Path file) throws IOException {
    if (isShared(file)) {
      return null;
    }
    if (!Files.exists(file) && Files.isSymbolicLink(file)) {
      return null; // it leads to no file yet: who writes through it makes one
    }
    Path place = Files.exists(file) ? file.toRealPath() : file.toAbsolutePath();
    Path directory = place.getParent();
    return (!Files.exists(place) || Files.isRegularFile(place))
            && !isShared(place)
            && directory != null
            && Files.isWritable(directory)
        ? place
        : null;
  }

  /** Such as /dev/stdout, even if that is a file now: others write to it, too. */
  private static boolean isShared(Path file) {
    Path absolute = file.toAbsolutePath().normalize();
    return (absolute.startsWith("/dev") && !absolute.startsWith("/dev/shm"))
        || absolute.startsWith("/proc");
  }
}
