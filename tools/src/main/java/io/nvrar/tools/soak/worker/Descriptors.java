package io.nvrar.tools.soak.worker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** The open file descriptors of a process. */
public final class Descriptors {
  private Descriptors() {}

  /**
   * The target of each descriptor, such as {@code socket:[4711]}; descriptors that close meanwhile
   * are left out.
   */
  public static List<String> of(Path process) throws IOException {
    List<Path> links;
    try (Stream<Path> entries = Files.list(process.resolve("fd"))) {
      links = entries.toList();
    }
    List<String> targets = new ArrayList<>();
    for (Path link : links) {
      try {
        targets.add(Files.readSymbolicLink(link).toString());
      } catch (NoSuchFileException e) {
        // Closed meanwhile, like the descriptor by which this process reads the directory.
      }
    }
    return targets;
  }
}
