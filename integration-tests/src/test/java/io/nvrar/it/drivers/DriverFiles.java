package io.nvrar.it.drivers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The directory into which a Ray driver unpacks its native library, and which it never deletes. The
 * launcher's keeper ({@code bin/lib/keeper.py}) has the same pattern.
 */
public final class DriverFiles {

  private static final Pattern LIBRARY =
      Pattern.compile("(/tmp/ray/\\d{13,})/libcore_worker_library_java\\.so");

  private DriverFiles() {}

  /** The directory of a living driver, empty if it has none (yet). */
  public static String of(long pid) throws IOException {
    Matcher matcher = LIBRARY.matcher(Files.readString(Path.of("/proc/" + pid + "/maps")));
    return matcher.find() ? matcher.group(1) : "";
  }

  public static void delete(String directory) throws IOException {
    if (directory.isEmpty()) {
      return;
    }
    List<Path> files;
    try (Stream<Path> walk = Files.walk(Path.of(directory))) {
      files = walk.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path file : files) {
      Files.deleteIfExists(file);
    }
  }
}
