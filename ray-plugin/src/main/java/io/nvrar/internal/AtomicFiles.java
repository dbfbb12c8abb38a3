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

/** Files that appear under their name whole or not at all. */
public final class AtomicFiles {
  private static final Logger LOG = LoggerFactory.getLogger(AtomicFiles.class);

  private AtomicFiles() {}

  /**
   * Gives a finished file its name, unless there is one of that name, which stays. The temporary
   * name may remain; the caller deletes it.
   *
   * <p>On a file system without hard links, of processes that come at the same moment the last
   * one's file stays, not the first one's.
   *
   * @param temporary in the same directory as {@code target}
   * @return whether it now has its name
   * @throws IOException if it can be neither linked nor renamed
   */
  public static boolean publish(Path temporary, Path target) throws IOException {
    try {
      // A link first, since it fails where a rename replaces: none who has opened or mapped the
      // first one's file finds it without a name.
      Files.createLink(target, temporary);
      return true;
    } catch (FileAlreadyExistsException e) {
      return false;
    } catch (FileSystemException | UnsupportedOperationException e) {
      // Java knows of file systems without links, Linux tells by EPERM or EOPNOTSUPP.
      LOG.debug("{} cannot be linked and is renamed", temporary, e);
    }
    if (Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
    return true;
  }
}
