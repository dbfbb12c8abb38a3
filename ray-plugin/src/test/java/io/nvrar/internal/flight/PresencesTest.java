package io.nvrar.internal.flight;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PresencesTest {
  private static final String MACHINE = "machine";
  private static final long NO_PROCESS = 1L << 40;

  @TempDir private Path directory;

  @BeforeEach
  void makePrivate() throws IOException {
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
  }

  @Test
  void whatKilledProcessesLeftIsDeletedAfterAWhile() throws IOException {
    Presences presences = new Presences(directory);
    Presence living = member(0, ProcessHandle.current().pid());
    Presence killed = member(1, NO_PROCESS);
    Presence justKilled = member(2, NO_PROCESS);
    for (Presence member : new Presence[] {living, killed, justKilled}) {
      presences.write(member);
    }
    Path interrupted = Files.createFile(directory.resolve(".1.tmp"));
    Path beingWritten = Files.createFile(directory.resolve(".2.tmp"));
    for (Path old : new Path[] {presences.fileOf(living), presences.fileOf(killed), interrupted}) {
      Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofMinutes(11))));
    }

    presences.prune(MACHINE);

    assertThat(directory)
        .isDirectoryNotContaining("glob:**-1-*.member")
        .isDirectoryNotContaining(interrupted::equals);
    assertThat(presences.fileOf(living)).exists();
    assertThat(presences.fileOf(justKilled)).exists();
    assertThat(beingWritten).exists();
  }

  private static Presence member(int rank, long pid) {
    return new Presence(
        "group",
        "id",
        3,
        "cpu",
        rank,
        "host",
        MACHINE,
        pid,
        pid == NO_PROCESS ? 1 : LinuxProcess.started(pid),
        new byte[8],
        null);
  }
}
