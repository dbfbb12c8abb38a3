package io.nvrar.internal;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * The version of this library. It is in a resource that the build fills in, because the version in
 * a jar's manifest is lost where jars are merged, and is that of another jar where one has classes
 * in the same package, as the tests have.
 */
public final class LibraryVersion {
  private static final String VERSION = read();

  private LibraryVersion() {}

  /** The version, as {@code 0.1.0}. */
  public static String get() {
    return VERSION;
  }

  private static String read() {
    try (InputStream in = LibraryVersion.class.getResourceAsStream("library-version")) {
      if (in == null) {
        throw new IllegalStateException(
            "ray-nvrar's jar is incomplete: it lacks io/nvrar/internal/library-version");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
