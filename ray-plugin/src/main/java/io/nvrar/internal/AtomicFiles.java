package io.nvrar.internal;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Publishes files atomically: a file appears under its name complete or not at all. */
public final class AtomicFiles {
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
}
