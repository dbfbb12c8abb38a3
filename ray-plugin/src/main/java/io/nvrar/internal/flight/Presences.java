package io.nvrar.internal.flight;

import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.PrivateDirectory;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The directory of a host in which this user's members say that they exist: one small file for each
 * member, which is deleted when the member closes. The file of a process that was killed stays for
 * a while, so that its rank can be called lost.
 */
final class Presences {
  private static final Logger LOG = LoggerFactory.getLogger(Presences.class);
  private static final String SUFFIX = ".member";
  private static final int MAX_NAME_CHARS = 64;

  /** How long the file of an ended process stays; then the next member to come deletes it. */
  private static final long LEFTOVER_SECONDS = TimeUnit.MINUTES.toSeconds(10);

  private final Path directory;

  Presences(Path directory) {
    this.directory = directory;
  }

  Path fileOf(Presence member) {
    return directory.resolve(
        String.format(
            Locale.ROOT,
            "%s-%s-%d-%d%s",
            FlightFile.safe(member.group(), MAX_NAME_CHARS),
            FlightFile.safe(member.groupId(), MAX_NAME_CHARS),
            member.rank(),
            member.pid(),
            SUFFIX));
  }

  /** Writes or replaces a member's file, which appears atomically. */
  void write(Presence member) throws IOException {
    PrivateDirectory.ensure(directory);
    AtomicFiles.replace(fileOf(member), member.toJson());
  }

  void delete(Presence member) throws IOException {
    Files.deleteIfExists(fileOf(member));
  }

  /**
   * All that can be read, in no order; none if there is no directory.
   *
   * @throws IOException if another user could have written them
   */
  List<Presence> all() throws IOException {
    List<Presence> all = new ArrayList<>();
    if (!Files.exists(directory, LinkOption.NOFOLLOW_LINKS)) {
      return all;
    }
    PrivateDirectory.check(directory);
    for (Path file : files(SUFFIX)) {
      try {
        all.add(Presence.read(file));
      } catch (IOException e) { // its member has just closed, or is of another version
        LOG.debug("{} is passed over", file, e);
      }
    }
    return all;
  }

  /**
   * Deletes what processes that were killed have left behind some time ago.
   *
   * @throws IOException if another user could have written it
   */
  void prune(String machine) throws IOException {
    PrivateDirectory.ensure(directory);
    Instant leftover = Instant.now().minusSeconds(LEFTOVER_SECONDS);
    for (Path file : files(SUFFIX)) {
      try {
        if (isBefore(leftover, file)) {
          Presence member = Presence.read(file);
          if (member.machine().equals(machine)
              && !LinuxProcess.lives(member.pid(), member.started())) {
            Files.deleteIfExists(file);
          }
        }
      } catch (IOException e) {
        LOG.debug("{} is passed over", file, e);
      }
    }
    for (Path file :
        files(AtomicFiles.TEMP_SUFFIX)) { // left by a process that was killed while writing
      try {
        if (isBefore(leftover, file)) {
          Files.deleteIfExists(file);
        }
      } catch (IOException e) {
        LOG.debug("{} is passed over", file, e);
      }
    }
  }

  private static boolean isBefore(Instant time, Path file) throws IOException {
    return Files.getLastModifiedTime(file, LinkOption.NOFOLLOW_LINKS).toInstant().isBefore(time);
  }

  private List<Path> files(String suffix) {
    try (Stream<Path> files = Files.list(directory)) {
      return files.filter(file -> file.toString().endsWith(suffix)).toList();
    } catch (IOException | UncheckedIOException e) {
      LOG.debug("{} cannot be listed", directory, e);
      return List.of();
    }
  }
}
