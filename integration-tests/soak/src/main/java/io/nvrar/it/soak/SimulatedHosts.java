package io.nvrar.it.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Hosts that are simulated on this machine: the processes of each see a boot id and a host name of
 * their own, so the library takes them for processes of another machine and links them by TCP, here
 * over loopback. They have the pids, the files and the network of this machine.
 */
public final class SimulatedHosts {
  private static final String BOOT_ID = "/proc/sys/kernel/random/boot_id";

  /** Its arguments: the file of the boot id, the host name, the command. Keeps its pid. */
  private static final String BECOME =
      "mount --bind \"$0\" " + BOOT_ID + " && hostname \"$1\" && shift && exec \"$@\"";

  private static final Duration PROBE_LIMIT = Duration.ofSeconds(20);

  private final Path directory;

  /**
   * @param directory where the hosts' files are made
   */
  public SimulatedHosts(Path directory) throws IOException {
    this.directory = Files.createDirectories(directory);
  }

  /**
   * The command that runs a command on a host.
   *
   * @param host its number; 0 is this machine itself
   */
  public List<String> on(int host, List<String> command) throws IOException {
    if (host == 0) {
      return command;
    }
    String name = "soak-host-" + host;
    Path bootId = directory.resolve(name);
    if (!Files.exists(bootId)) {
      Files.writeString(bootId, UUID.nameUUIDFromBytes(name.getBytes(UTF_8)) + "\n");
    }
    List<String> words =
        new ArrayList<>(
            List.of("unshare", "--mount", "--uts", "/bin/sh", "-c", BECOME, bootId.toString()));
    words.add(name);
    words.addAll(command);
    return words;
  }

  /** Why this machine cannot simulate hosts; null if it can. */
  static @Nullable String obstacle() throws IOException, InterruptedException {
    Path scratch = Files.createTempDirectory("nvrar-soak-hosts-");
    try {
      return obstacle(
          new SimulatedHosts(scratch).on(1, List.of("cat", BOOT_ID)), scratch, PROBE_LIMIT);
    } finally {
      try (Stream<Path> left = Files.list(scratch)) {
        for (Path file : left.toList()) {
          Files.delete(file);
        }
      }
      Files.delete(scratch);
    }
  }

  /** Why a command fails; null if it does not. */
  static @Nullable String obstacle(List<String> command, Path scratch, Duration limit)
      throws IOException, InterruptedException {
    Path said = scratch.resolve("said");
    Process probe;
    try {
      probe =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(said.toFile())
              .start();
    } catch (IOException e) {
      return e.getMessage();
    }
    try {
      if (!probe.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
        return String.format(
            Locale.ROOT, "%s does not end within %d s", command.get(0), limit.toSeconds());
      }
      if (probe.exitValue() == 0) {
        return null;
      }
      String why = Files.readString(said).strip();
      return why.isEmpty() ? command.get(0) + " exits with " + probe.exitValue() : why;
    } finally {
      // A kill is only sent.
      probe.destroyForcibly().waitFor(limit.toMillis(), TimeUnit.MILLISECONDS);
    }
  }
}
