package io.nvrar.it.soak.worker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The open file descriptors of a process. */
public final class Descriptors {
  private Descriptors() {}

  /**
   * The target of each descriptor, such as {@code socket:[4711]}; descriptors that close meanwhile
   * are left out.
   */
  public static List<String> of(Path process) throws IOException {
    return List.copyOf(byNumber(process).values());
  }

  /** The number of a descriptor with the given target; -1 if there is none. */
  static int find(Path process, String target) throws IOException {
    return byNumber(process).entrySet().stream()
        .filter(entry -> entry.getValue().equals(target))
        .map(Map.Entry::getKey)
        .findFirst()
        .orElse(-1);
  }

  private static Map<Integer, String> byNumber(Path process) throws IOException {
    List<Path> links;
    try (Stream<Path> entries = Files.list(process.resolve("fd"))) {
      links = entries.toList();
    }
    Map<Integer, String> targets = new HashMap<>();
    for (Path link : links) {
      try {
        targets.put(
            Integer.valueOf(link.getFileName().toString()),
            Files.readSymbolicLink(link).toString());
      } catch (NoSuchFileException e) {
        // Closed meanwhile, like the descriptor by which this process reads the directory.
      }
    }
    return targets;
  }
}
