package io.nvrar.internal.loading;

import io.nvrar.internal.TempDirectory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The settings that determine where the native library is searched.
 *
 * @param nativeDir {@code -Dnvrar.native.dir}: only this directory, nothing is extracted
 * @param cacheDir {@code -Dnvrar.native.cache}: where to extract, first choice
 * @param userCacheDir {@code $XDG_CACHE_HOME} or {@code ~/.cache}; null if there is neither
 * @param tempDir see {@link TempDirectory}
 * @param userName part of the name of the directory under {@code tempDir}
 * @param platform the resource folder, such as {@code linux-x86_64}
 */
public record LoaderSettings(
    @Nullable String nativeDir,
    @Nullable String cacheDir,
    @Nullable Path userCacheDir,
    Path tempDir,
    String userName,
    String platform) {

  public static final String NATIVE_DIR_PROPERTY = "nvrar.native.dir";
  public static final String CACHE_DIR_PROPERTY = "nvrar.native.cache";

  /** The settings of this process. */
  public static LoaderSettings ofProcess() {
    return of(System.getProperties(), System.getenv(), TempDirectory.get());
  }

  static LoaderSettings of(Map<?, ?> properties, Map<String, String> environment, Path tempDir) {
    return new LoaderSettings(
        nonEmpty(properties.get(NATIVE_DIR_PROPERTY)),
        nonEmpty(properties.get(CACHE_DIR_PROPERTY)),
        userCacheDir(environment.get("XDG_CACHE_HOME"), nonEmpty(properties.get("user.home"))),
        tempDir,
        orElse(properties.get("user.name"), "unknown").replaceAll("[^A-Za-z0-9._-]", "_"),
        platform(
            orElse(properties.get("os.name"), "unknown"),
            orElse(properties.get("os.arch"), "unknown")));
  }

  /** The directories to extract below, best first; the first that works is used. */
  public List<Path> extractionRoots() {
    List<Path> roots = new ArrayList<>();
    if (cacheDir != null) {
      roots.add(Path.of(cacheDir).toAbsolutePath());
    } else if (userCacheDir != null) {
      roots.add(userCacheDir.resolve("nvrar"));
    }
    roots.add(tempDir.toAbsolutePath().resolve("nvrar-" + userName));
    return roots;
  }

  // The XDG base directory specification: a relative path is to be ignored.
  private static @Nullable Path userCacheDir(@Nullable String xdgCacheHome, @Nullable String home) {
    if (xdgCacheHome != null && Path.of(xdgCacheHome).isAbsolute()) {
      return Path.of(xdgCacheHome);
    }
    // The JVM reports "?" for a user without an entry in the password file.
    return home == null || home.equals("?") ? null : Path.of(home).resolve(".cache");
  }

  private static String platform(String osName, String osArch) {
    String os = osName.toLowerCase(Locale.ROOT).replace(' ', '-');
    String arch = osArch.toLowerCase(Locale.ROOT);
    return os + "-" + (arch.equals("amd64") ? "x86_64" : arch);
  }

  private static @Nullable String nonEmpty(@Nullable Object value) {
    return value instanceof String text && !text.isEmpty() ? text : null;
  }

  private static String orElse(@Nullable Object value, String otherwise) {
    String text = nonEmpty(value);
    return text == null ? otherwise : text;
  }
}
