package io.nvrar.tools;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Finds a library as the dynamic linker would, without loading it: a driver's library starts
 * threads, and a report should have no side effects.
 */
record SharedLibraries(List<Path> directories) {
  private static final List<String> USUAL_DIRECTORIES =
      List.of(
          "/usr/lib/x86_64-linux-gnu",
          "/usr/lib64",
          "/usr/lib",
          "/usr/local/lib",
          "/usr/local/cuda/lib64");

  /** The directories of {@code LD_LIBRARY_PATH}, then the usual ones. */
  static SharedLibraries ofProcess() {
    return of(System.getenv("LD_LIBRARY_PATH"));
  }

  static SharedLibraries of(@Nullable String libraryPath) {
    List<Path> directories = new ArrayList<>();
    if (libraryPath != null) {
      for (String directory : libraryPath.split(":", -1)) {
        if (!directory.isEmpty()) {
          directories.add(Path.of(directory));
        }
      }
    }
    USUAL_DIRECTORIES.forEach(directory -> directories.add(Path.of(directory)));
    return new SharedLibraries(directories);
  }

  /** The first file of that name, with its links resolved. */
  Optional<String> find(String name) {
    for (Path directory : directories) {
      Path file = directory.resolve(name);
      if (Files.exists(file)) {
        return Optional.of(file + target(file));
      }
    }
    return Optional.empty();
  }

  /** The places that {@link #find} searches, for a message. */
  String places() {
    return directories.stream().map(Path::toString).collect(Collectors.joining(", "));
  }

  private static String target(Path file) {
    try {
      Path real = file.toRealPath();
      return real.equals(file) ? "" : " -> " + real;
    } catch (IOException e) {
      return " (" + e + ")";
    }
  }

  /** The first line of a file, or nothing if there is none to read. */
  static Optional<String> firstLine(Path file) {
    if (!Files.isReadable(file)) {
      return Optional.empty();
    }
    try (var lines = Files.lines(file)) {
      return lines.findFirst();
    } catch (IOException e) {
      return Optional.of(file + " cannot be read: " + e);
    }
  }
}
