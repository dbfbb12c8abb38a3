package io.nvrar.internal.binding;

import com.sun.jna.Function;
import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import io.nvrar.BackendUnavailableException;
import io.nvrar.internal.LibraryVersion;
import io.nvrar.internal.loading.JnaStart;
import io.nvrar.internal.loading.LoadAttempts;
import io.nvrar.internal.loading.LoaderSettings;
import io.nvrar.internal.loading.NativeFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds {@code libnvrar.so} and loads it, once per class loader, when it is first needed.
 *
 * <p>With {@code -Dnvrar.native.dir=DIR} it is {@code DIR/libnvrar.so} and nothing else. Otherwise
 * the one in the jar is extracted to a private directory, {@code <cache>/<version>-<content
 * hash>/}, where {@code <cache>} is {@code -Dnvrar.native.cache}, or {@code nvrar} under {@code
 * $XDG_CACHE_HOME} or {@code ~/.cache}; if that cannot be written or executed, {@code nvrar-<user>}
 * under {@code java.io.tmpdir}. JNA's own library is unpacked into the same directory ({@link
 * JnaStart}).
 */
public final class NativeLibraries {
  private static final Logger LOG = LoggerFactory.getLogger(NativeLibraries.class);

  public static final String FILE_NAME = "libnvrar.so";
  private static final String RESOURCE_ROOT = "io/nvrar/native/";
  private static final String SUPPORTED_PLATFORM = "linux-x86_64";
  private static final String WHAT = "the native library " + FILE_NAME + " cannot be loaded";

  /**
   * RTLD_NOW without RTLD_GLOBAL: a missing symbol fails here and not in a call, and our symbols
   * cannot collide with others.
   */
  private static final Map<String, Integer> OPEN_OPTIONS = Map.of(Library.OPTION_OPEN_FLAGS, 2);

  /** How long after an attempt there may be another one. */
  private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);

  private NativeLibraries() {}

  /** Whether the native library is loaded or can be. */
  public static boolean isAvailable() {
    return Loaded.outcome().problem() == null;
  }

  /**
   * Loads the native library if that has not happened yet.
   *
   * @throws BackendUnavailableException with every path that was tried and every cause
   */
  public static void ensureAvailable() {
    BackendUnavailableException cause = unavailabilityCause();
    if (cause != null) {
      throw cause;
    }
  }

  /** Why the native library cannot be loaded; null if it can. */
  public static @Nullable BackendUnavailableException unavailabilityCause() {
    Outcome outcome = Loaded.outcome();
    String problem = outcome.problem();
    return problem == null ? null : new BackendUnavailableException(problem, outcome.cause());
  }

  /** Whether this process has loaded the library; does not load it. */
  static boolean isLoaded() {
    return Loaded.library != null;
  }

  /**
   * Maps another class's native methods to the library.
   *
   * @throws BackendUnavailableException if the library cannot be loaded or lacks one of them
   */
  static void register(Class<?> binding) {
    ensureAvailable();
    try {
      Native.register(binding, Loaded.library());
    } catch (LinkageError e) {
      LoadAttempts linking = new LoadAttempts();
      linking.failed(FILE_NAME, "it lacks a function of " + binding.getSimpleName(), e);
      throw linking.toException(WHAT);
    }
  }

  /**
   * A function of the library.
   *
   * @throws BackendUnavailableException if the library cannot be loaded
   */
  static Function function(String name) {
    ensureAvailable();
    return Loaded.library().getFunction(name);
  }

  /** Opens the library according to the settings and checks that it is ours. */
  static NativeLibrary open(LoaderSettings settings, ClassLoader resources, LoadAttempts attempts) {
    String nativeDir = settings.nativeDir();
    // Before JNA, which would fail first where it has no library either.
    if (nativeDir == null && !settings.platform().equals(SUPPORTED_PLATFORM)) {
      throw new BackendUnavailableException(
          WHAT
              + ": it is built for "
              + SUPPORTED_PLATFORM
              + " and this JVM runs on "
              + settings.platform()
              + "; there is none for it");
    }
    JnaStart.Problem jna = JnaStart.problem();
    if (jna != null) {
      jna.addTo(attempts);
      throw attempts.toException(WHAT);
    }
    NativeLibrary library =
        nativeDir != null
            ? openFile(Path.of(nativeDir).toAbsolutePath().resolve(FILE_NAME), attempts)
            : openExtracted(settings, resources, attempts);
    if (library == null) {
      throw attempts.toException(WHAT);
    }
    return library;
  }

  private static @Nullable NativeLibrary openExtracted(
      LoaderSettings settings, ClassLoader resources, LoadAttempts attempts) {
    String folder = RESOURCE_ROOT + settings.platform();
    NativeFiles files;
    try {
      files =
          NativeFiles.fromClassPath(resources, LibraryVersion.get(), folder, List.of(FILE_NAME));
    } catch (IOException e) {
      attempts.unreadable(
          "class path:" + folder + "/" + FILE_NAME,
          "the jar ray-nvrar-native is missing; add it, with the classifier linux-x86_64 or"
              + " linux-x86_64-cpu, or set -D"
              + LoaderSettings.NATIVE_DIR_PROPERTY,
          e);
      return null;
    }
    for (Path root : settings.extractionRoots()) {
      NativeLibrary library = extractAndOpen(files, root, attempts);
      if (library != null) {
        return library;
      }
      LOG.warn("{} cannot be used: {}", FILE_NAME, attempts.lastReason());
    }
    return null;
  }

  private static @Nullable NativeLibrary extractAndOpen(
      NativeFiles files, Path root, LoadAttempts attempts) {
    Path file = root.resolve(files.directoryName()).resolve(FILE_NAME);
    try {
      files.extractTo(root);
    } catch (IOException | UnsupportedOperationException e) {
      attempts.notExtracted(file.toString(), e);
      return null;
    }
    return openFile(file, attempts);
  }

  private static @Nullable NativeLibrary openFile(Path file, LoadAttempts attempts) {
    if (!Files.exists(file)) {
      attempts.failed(file.toString(), "there is no such file");
      return null;
    }
    NativeLibrary library;
    int abiVersion;
    try {
      library = NativeLibrary.getInstance(file.toString(), OPEN_OPTIONS);
      abiVersion = library.getFunction("nvrar_abi_version").invokeInt(new Object[0]);
    } catch (RuntimeException e) {
      attempts.failed(file.toString(), "JNA cannot open it", e);
      return null;
    } catch (LinkageError e) {
      attempts.failed(file.toString(), LoadAttempts.reason(file), e);
      return null;
    }
    if (abiVersion != NvrarBinding.ABI_VERSION) {
      library.dispose();
      attempts.failed(
          file.toString(),
          "it has ABI version "
              + abiVersion
              + " and this jar needs "
              + NvrarBinding.ABI_VERSION
              + "; take both from one release");
      return null;
    }
    return library;
  }

  /**
   * What came of loading.
   *
   * @param problem null if it is loaded
   * @param mayPass whether another attempt may succeed
   * @param atNanos when that was, by {@link System#nanoTime}
   */
  private record Outcome(
      @Nullable String problem, @Nullable Throwable cause, boolean mayPass, long atNanos) {
    static Outcome of(BackendUnavailableException e, LoadAttempts attempts) {
      return new Outcome(e.getMessage(), e.getCause(), attempts.mayPass(), System.nanoTime());
    }

    /** Every attempt writes a file. */
    boolean isWorthAnother() {
      return mayPass && System.nanoTime() - atNanos >= RETRY_NANOS;
    }
  }

  /** Loads on first use, once it can be. */
  private static final class Loaded {
    private static volatile @Nullable Outcome outcome;
    private static volatile @Nullable NativeLibrary library;

    private Loaded() {}

    static NativeLibrary library() {
      return Objects.requireNonNull(library);
    }

    static Outcome outcome() {
      Outcome known = outcome;
      return known == null || known.isWorthAnother() ? again() : known;
    }

    private static synchronized Outcome again() {
      Outcome known = outcome;
      if (known == null || known.isWorthAnother()) {
        known = load();
        outcome = known;
      }
      return known;
    }

    private static Outcome load() {
      LoadAttempts attempts = new LoadAttempts();
      try {
        NativeLibrary opened =
            open(LoaderSettings.ofProcess(), NativeLibraries.class.getClassLoader(), attempts);
        // JNA keeps a library open as long as a class is registered with it.
        Native.register(NvrarBinding.class, opened);
        library = opened;
        LOG.debug("Loaded {}", opened.getFile());
        return new Outcome(null, null, false, System.nanoTime());
      } catch (BackendUnavailableException e) {
        return Outcome.of(e, attempts);
      } catch (LinkageError e) {
        LoadAttempts linking = new LoadAttempts();
        linking.failed(FILE_NAME, "it lacks a function of its own ABI version", e);
        return Outcome.of(linking.toException(WHAT), linking);
      }
    }
  }
}
