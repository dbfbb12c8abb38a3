package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Another host on this machine, as far as a group can tell: namespaces of their own for the pids,
 * mounts and, if wanted, clocks of a process and its children. It has this machine's host name.
 */
public final class OtherHost {
  private OtherHost() {}

  /** The command to run a process there under. */
  static List<String> command() throws IOException, InterruptedException {
    return command(List.of(), "true");
  }

  /**
   * The same.
   *
   * @param more options of unshare
   * @param preparation a line of the shell that runs there first
   */
  static List<String> command(List<String> more, String preparation)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("unshare", "-rmpf", "--kill-child"));
    command.addAll(List.of("--mount-proc"));
    command.addAll(more);
    command.addAll(List.of("sh", "-c", preparation + " && exec \"$@\"", "sh"));
    List<String> probe = new ArrayList<>(command);
    probe.add("true");
    require(probe.toArray(String[]::new));
    return command;
  }

  /** Skips the test where this machine does not let a command run, and fails it in CI. */
  public static void require(String... command) throws IOException, InterruptedException {
    Path said = Files.createTempFile("nvrar-probe-", ".txt");
    try {
      Process probe =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(said.toFile())
              .start();
      boolean runs;
      try {
        runs = probe.waitFor(30, TimeUnit.SECONDS) && probe.exitValue() == 0;
      } finally {
        probe.destroyForcibly();
      }
      String sentence =
          "this machine does not run " + List.of(command) + ": " + Files.readString(said);
      if ("true".equals(System.getenv("CI"))) {
        assertThat(runs).as(sentence).isTrue();
      }
      assumeTrue(runs, sentence);
    } finally {
      Files.delete(said);
    }
  }
}
