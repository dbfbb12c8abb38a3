package io.nvrar.internal.loading;

import com.sun.jna.Native;
import io.nvrar.internal.PrivateDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
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
      if (cause.getCause() instanceof ClassNotFoundException missing) {
        attempts.failed("the class path", "JNA lacks the class " + missing.getMessage(), cause);
        attempts.advise(
            "add JNA's jar, and to an image of jlink the module java.logging, which JNA needs");
      } else if (cause.getClass() == Error.class) { // what JNA throws for this and nothing else
        attempts.failed(
            System.getProperty("jna.boot.library.path", "the system's library path"),
            "JNA has found a library of its own that is of another version than its classes",
            cause);
        attempts.advise("unset -Djna.boot.library.path, or set -Djna.nosys=true");
      } else {
        attempts.failed(
            directory, "JNA cannot unpack and load its own library in this directory", cause);
        attempts.advise(
            "name a writable directory that is not mounted noexec by -D" + DIRECTORY_PROPERTY);
      }
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
      String directory = named == null ? ours(LoaderSettings.ofProcess()) : named;
      System.setProperty(DIRECTORY_PROPERTY, directory);
      try {
        LOG.debug("JNA runs, with pointers of {} bytes", Native.POINTER_SIZE);
        return null;
      } catch (VirtualMachineError e) {
        throw e;
      } catch (Error e) { // JNA's start fails with a plain Error or a LinkageError
        return new Problem(directory, e);
      } finally {
        if (named == null) {
          System.clearProperty(DIRECTORY_PROPERTY); // set for JNA's start only
        }
      }
    }

    // Where none is usable JNA may need none, because it runs already or finds its library
    // installed. Left to itself it would make a directory below the user's home, which is "?" in
    // the working directory where the user has no home.
    private static String ours(LoaderSettings settings) {
      Path usable = usable(settings);
      return (usable == null ? settings.tempDir() : usable).toString();
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
