package io.nvrar.internal.loading;

import com.sun.jna.Function;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import io.nvrar.BackendUnavailableException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Checks that JCuda can be loaded safely, before it is. By itself JCuda extracts its library to one
 * name in {@code java.io.tmpdir}, which all JVMs write concurrently, and the first call of a
 * function that the driver lacks would end the process.
 */
public final class CudaLibraries {
  public static final String DRIVER = "libcuda.so.1";

  /** CUDA 12.0, in the format of {@code cuDriverGetVersion}; JCuda is linked against it. */
  static final int MIN_DRIVER_VERSION = 12000;

  private static final String WHAT = "the CUDA backend cannot run here";
  private static final String PLATFORM = "linux-x86_64";
  private static final String RESOURCE_FOLDER = "lib";

  private CudaLibraries() {}

  /**
   * Opens NVIDIA's driver library and, from a private directory, JCuda's, and binds every function.
   *
   * @param label the label of the directory, with JCuda's version
   * @param fileName the name of JCuda's library
   * @return the directory of the library
   * @throws BackendUnavailableException if something is missing, with what was tried
   */
  public static Path open(String label, String fileName, ClassLoader resources) {
    return open(LoaderSettings.ofProcess(), label, fileName, resources);
  }

  static Path open(LoaderSettings settings, String label, String fileName, ClassLoader resources) {
    if (!settings.platform().equals(PLATFORM)) {
      throw new BackendUnavailableException(
          WHAT + ": it is built for " + PLATFORM + " and this JVM runs on " + settings.platform());
    }
    LoadAttempts attempts = new LoadAttempts();
    JnaStart.Problem jna = JnaStart.problem();
    if (jna != null) {
      jna.addTo(attempts);
      throw attempts.toException(WHAT);
    }
    requireDriver();
    NativeFiles files;
    try {
      files = NativeFiles.fromClassPath(resources, label, RESOURCE_FOLDER, List.of(fileName));
    } catch (IOException e) {
      attempts.unreadable(
          "class path:" + RESOURCE_FOLDER + "/" + fileName,
          "the jar jcuda-natives for " + PLATFORM + " is missing; add it",
          e);
      throw attempts.toException(WHAT);
    }
    for (Path root : settings.extractionRoots()) {
      Path file = root.resolve(files.directoryName()).resolve(fileName);
      try {
        Path directory = files.extractTo(root);
        DynamicLinker.open(file.toString());
        return directory;
      } catch (IOException | UnsupportedOperationException e) {
        attempts.notExtracted(file.toString(), e);
      } catch (UnsatisfiedLinkError e) {
        requireAllFunctions(e);
        attempts.failed(file.toString(), LoadAttempts.reason(file), e);
      }
    }
    throw attempts.toException(WHAT);
  }

  private static void requireDriver() {
    int version;
    try {
      version = driverVersion(DynamicLinker.open(DRIVER));
    } catch (UnsatisfiedLinkError e) {
      throw new BackendUnavailableException(
          WHAT
              + ": the library of NVIDIA's driver cannot be loaded ("
              + e.getMessage()
              + "); install the driver, or start the container with its GPUs (docker run --gpus)",
          e);
    }
    if (version < MIN_DRIVER_VERSION) {
      throw new BackendUnavailableException(
          String.format(
              Locale.ROOT,
              "%s: NVIDIA's driver is too old, it supports CUDA %s and %s is needed; update the driver",
              WHAT,
              versionText(version),
              versionText(MIN_DRIVER_VERSION)));
    }
  }

  private static int driverVersion(Pointer driver) {
    Function function = DynamicLinker.find(driver, "cuDriverGetVersion");
    if (function == null) {
      throw new UnsatisfiedLinkError(DRIVER + " has no cuDriverGetVersion");
    }
    IntByReference version = new IntByReference();
    // cuDriverGetVersion needs no cuInit; its only error is a null argument.
    function.invokeInt(new Object[] {version});
    return version.getValue();
  }

  // Another directory would not help, because the driver lacks the function.
  private static void requireAllFunctions(UnsatisfiedLinkError error) {
    String message = String.valueOf(error.getMessage());
    int at = message.indexOf("undefined symbol: ");
    if (at >= 0) {
      throw new BackendUnavailableException(
          WHAT
              + ": NVIDIA's driver library "
              + DRIVER
              + " lacks a function that JCuda calls ("
              + message.substring(at)
              + "); update the driver",
          error);
    }
  }

  private static String versionText(int version) {
    return version / 1000 + "." + version % 1000 / 10;
  }
}
