package io.nvrar.internal;

import java.nio.file.Path;

/** The directory of this process for temporary files. */
public final class TempDirectory {
  // Read once: while JCuda starts, the property names another directory.
  private static final Path OF_PROCESS = read(System.getProperty("java.io.tmpdir", ""));

  private TempDirectory() {}

  /** What {@code java.io.tmpdir} named when this class was first used. */
  public static Path get() {
    return OF_PROCESS;
  }

  private static Path read(String property) {
    return Path.of(property.isEmpty() ? "/tmp" : property).toAbsolutePath();
  }
}
