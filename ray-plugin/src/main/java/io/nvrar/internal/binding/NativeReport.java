package io.nvrar.internal.binding;

import com.sun.jna.Native;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Stream;

/** Describes the native libraries that this process has actually loaded, for {@code doctor}. */
public final class NativeReport {
  private static final int TEXT_BYTES = 512;

  private NativeReport() {}

  /**
   * The native library's file, build id and ABI version.
   *
   * @throws io.nvrar.BackendUnavailableException if it cannot be loaded
   */
  public static String library() {
    NativeLibraries.ensureAvailable();
    return String.format(
        Locale.ROOT,
        "%s, build %s, ABI %d",
        mappedFile(),
        NativeCommunicator.buildId(),
        NvrarBinding.ABI_VERSION);
  }

  /**
   * The version of NVSHMEM and its file, found as a group would find them.
   *
   * @throws io.nvrar.BackendUnavailableException with every place that was tried, if there is none
   */
  public static String nvshmem() {
    return GpuSettings.ofProcess().findNvshmem();
  }

  /**
   * The version of the libcrypto that encrypted links use, and its file.
   *
   * @throws io.nvrar.BackendUnavailableException with what was tried, if there is none
   */
  public static String libcrypto() {
    NativeLibraries.ensureAvailable();
    byte[] text = new byte[TEXT_BYTES];
    NativeStatus.check(NvrarBinding.nvrar_find_libcrypto(text, text.length));
    return NativeStructs.text(text);
  }

  /** JNA's version and the jar it comes from: in a Ray worker it is Ray's copy, not ours. */
  public static String jna() {
    // Not Native.VERSION, because the compiler would inline the constant of the version that we
    // compile with.
    String version = Native.class.getPackage().getImplementationVersion();
    CodeSource source = Native.class.getProtectionDomain().getCodeSource();
    return Objects.requireNonNullElse(version, "unknown version")
        + (source == null ? "" : ", " + Path.of(source.getLocation().getPath()));
  }

  private static String mappedFile() {
    // The kernel's map shows from which place the loader has loaded it.
    try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
      return maps.filter(line -> line.endsWith("/" + NativeLibraries.FILE_NAME))
          .map(line -> line.substring(line.indexOf('/')))
          .findFirst()
          .orElse(NativeLibraries.FILE_NAME);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
