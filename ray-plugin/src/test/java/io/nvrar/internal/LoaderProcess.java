package io.nvrar.internal;

import io.nvrar.Backend;
import io.nvrar.BackendUnavailableException;
import io.nvrar.GroupConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Loads the library, calls it and says from where it was loaded: {@code [start at, in ms of the
 * clock]}.
 */
final class LoaderProcess {
  static final int UNAVAILABLE = 3;

  private LoaderProcess() {}

  public static void main(String[] args) throws Exception {
    if (args.length > 0) {
      Thread.sleep(Math.max(0, Long.parseLong(args[0]) - System.currentTimeMillis()));
    }
    try {
      System.out.println("build " + NativeCommunicator.buildId());
    } catch (BackendUnavailableException e) {
      System.out.println(e.getMessage());
      System.exit(UNAVAILABLE);
    }
    byte[] id = NativeCommunicator.uniqueId(Backend.CPU);
    try (NativeCommunicator alone =
        NativeCommunicator.prepare(Backend.CPU, 0, 0, 1, id, GroupConfig.defaults())) {
      alone.connect(new byte[][] {alone.descriptor()});
      alone.barrier(0);
      System.out.println(alone.call(0).description());
    }
    System.out.println("from " + loadedFrom());
  }

  private static String loadedFrom() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/maps")).stream()
        .filter(line -> line.endsWith("/libnvrar.so"))
        .map(line -> line.substring(line.indexOf('/')))
        .distinct()
        .reduce("", String::concat);
  }
}
