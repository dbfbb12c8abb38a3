package io.nvrar.cli.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** What a figure needs beside it to mean anything. */
final class Machine {
  private Machine() {}

  static String describe() throws IOException {
    String model;
    try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
      model =
          lines
              .filter(line -> line.startsWith("model name"))
              .findFirst()
              .map(line -> line.substring(line.indexOf(':') + 1).strip())
              .orElse("unknown");
    }
    return "%d cores of %s, Linux %s, JDK %s"
        .formatted(
            Runtime.getRuntime().availableProcessors(),
            model,
            System.getProperty("os.version"),
            System.getProperty("java.version"));
  }
}
