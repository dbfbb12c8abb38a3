package io.nvrar.tools.bench;

import io.nvrar.Backend;
import io.nvrar.internal.device.cuda.CudaDevices;
import io.nvrar.tools.CudaReport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.stream.Stream;

/** Describes the machine, for the head of a report. */
final class Machine {
  private Machine() {}

  static String describe(Backend backend) throws IOException {
    String gpus = "";
    if (backend == Backend.CUDA) {
      int count = CudaDevices.count();
      gpus =
          String.format(
              Locale.ROOT, "%d GPU%s %s, ", count, count == 1 ? "" : "s", CudaReport.model(0));
    }

    String model;
    try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
      model =
          lines
              .filter(line -> line.startsWith("model name"))
              .findFirst()
              .map(line -> line.substring(line.indexOf(':') + 1).strip())
              .orElse("unknown");
    }
    return String.format(
        Locale.ROOT,
        "%s%d cores of %s, Linux %s, JDK %s",
        gpus,
        Runtime.getRuntime().availableProcessors(),
        model,
        System.getProperty("os.version"),
        System.getProperty("java.version"));
  }
}
