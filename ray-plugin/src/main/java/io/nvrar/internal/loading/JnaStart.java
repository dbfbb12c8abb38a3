package io.nvrar.internal.loading;

import com.sun.jna.Native;
import io.nvrar.internal.PrivateDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts JNA, which unpacks a library of its own. By default it would do so below {@code
 * $XDG_CACHE_HOME}; here it gets the directory in which ours is unpacked, unless the user sets
 * {@code -Djna.tmpdir}, or other code in this process has already started JNA.
 */
public final class JnaStart {
  private static final Logger LOG = LoggerFactory.getLogger(JnaStart.class);

  private static final String DIRECTORY_PROPERTY = "jna.tmpdir";

  /** Larger than JNA's library. */
  private static final int PROBE_BYTES = 1 << 18;

  private JnaStart() {}

  /**
   * Why JNA cannot run in this process.
   *
   * @param directory the directory in which JNA should unpack its library
   * @param cause JNA's error
   */
  public record Problem(String directory, Error cause) {
    /** Adds this problem to a message. */
    public void addTo(LoadAttempts attempts) {
      attempts.failed(
          directory, "JNA cannot unpack and load its own library in this directory", cause);
      attempts.advise(
          "name a writable directory that is not mounted noexec by -D" + DIRECTORY_PROPERTY);
    }
  }

  /** Starts JNA if that has not happened yet; null if it runs. */
  public static @Nullable Problem problem() {
    return Started.PROBLEM;
  }

  /** Starts on first use, once. */
  private static final class Started {
    static final @Nullable Problem PROBLEM = start();

    private Started() {}

    private static @Nullable Problem start() {
      String named = System.getProperty(DIRECTORY_PROPERTY);
      Path ours = named == null ? usable(LoaderSettings.ofProcess()) : null;
      if (ours != null) {
        System.setProperty(DIRECTORY_PROPERTY, ours.toString());
      }
      try {
        LOG.debug("JNA runs, with pointers of {} bytes", Native.POINTER_SIZE);
        return null;
      } catch (VirtualMachineError e) {
        throw e;
      } catch (Error e) { // JNA's start fails with a plain Error or a LinkageError
        return new Problem(
            Objects.requireNonNullElse(
                ours == null ? named : ours.toString(), "the directory that JNA takes by itself"),
            e);
      } finally {
        if (ours != null) {
          System.clearProperty(DIRECTORY_PROPERTY); // set for JNA's start only
        }
      }
    }
  }

  /** The first directory in which a library can be written and executed; null if there is none. */
  static @Nullable Path usable(LoaderSettings settings) {
    for (Path root : settings.extractionRoots()) {
      try {
        PrivateDirectory.ensure(root);
        if (mayExecute(root)) {
          return root;
        }
      } catch (IOException | UnsupportedOperationException e) {
        LOG.debug("{} cannot be used: {}", root, e.getMessage());
      }
    }
    return null;
  }

  // If JNA's start fails, it cannot be repeated, so the directory is checked beforehand.
  private static boolean mayExecute(Path directory) throws IOException {
    Path probe = Files.createTempFile(directory, ".execute", NativeFiles.TEMP_SUFFIX);
    try {
      // Not empty, because an empty file could be created even on a full volume.
      Files.write(probe, new byte[PROBE_BYTES]);
      Files.setPosixFilePermissions(probe, PosixFilePermissions.fromString("r-x------"));
      return Files.isExecutable(probe); // false on a volume mounted noexec
    } finally {
      Files.deleteIfExists(probe);
    }
  }
}
