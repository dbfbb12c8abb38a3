package io.nvrar.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/**
 * The version of this library. It is in a resource that the build fills in, because the version in
 * a jar's manifest is lost where jars are merged, and is that of another jar where one has classes
 * in the same package, as the tests have.
 */
public final class LibraryVersion {
  /** Stands for the version where there is none, as in classes that no Maven build has made. */
  static final String UNKNOWN = "unknown";

  private static final String VERSION = read("library-version");

  private LibraryVersion() {}

  /** The version, as {@code 0.1.0}, or "unknown". */
  public static String get() {
    return VERSION;
  }

  static String read(String resource) {
    try (InputStream in = LibraryVersion.class.getResourceAsStream(resource)) {
      String version =
          in == null ? "" : new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
      // What begins with a dollar was not filled in.
      return version.isEmpty() || version.startsWith("$") ? UNKNOWN : version;
    } catch (IOException e) {
      return UNKNOWN;
    }
  }
}
