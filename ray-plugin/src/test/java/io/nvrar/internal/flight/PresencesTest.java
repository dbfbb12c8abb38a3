package io.nvrar.internal.flight;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import io.nvrar.BackendUnavailableException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
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

  /** Whoever else can write there could make every join read a pipe, and wait for ever. */
  @Test
  void nothingIsReadWhereAnotherUserCanWrite() throws IOException {
    Presences presences = new Presences(directory);
    presences.write(member(0, ProcessHandle.current().pid()));
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));

    assertThatThrownBy(presences::all)
        .isInstanceOf(IOException.class)
        .hasMessageContaining(directory + " is writable by other users");
    assertThatThrownBy(() -> presences.prune(MACHINE)).isInstanceOf(IOException.class);
    assertThatThrownBy(() -> new HostWatch(directory, () -> MACHINE).look())
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageStartingWith("members cannot be found: " + directory);
  }

  @Test
  void pipesAndLinksAndNestedListsArePassedOver() throws Exception {
    Presences presences = new Presences(directory);
    Presence living = member(0, ProcessHandle.current().pid());
    presences.write(living);
    Path pipe = directory.resolve("pipe.member");
    assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
    Path link = Files.createSymbolicLink(directory.resolve("link.member"), Path.of("/dev/zero"));
    Path nested = directory.resolve("nested.member");
    Files.writeString(
        nested, living.toJson().replaceFirst("\"group\":\"group\"", "\"group\":" + deep(20_000)));

    // By touch, because Java opens a file to set its time, which a pipe lets wait.
    assertThat(
            new ProcessBuilder("touch", "-hd", "1 hour ago", "" + pipe, "" + link, "" + nested)
                .start()
                .waitFor())
        .isZero();

    List<Presence> all = assertTimeoutPreemptively(Duration.ofSeconds(20), presences::all);
    assertThat(all).extracting(Presence::rank).containsExactly(0);
    assertTimeoutPreemptively(Duration.ofSeconds(20), () -> presences.prune(MACHINE));
  }

  private static String deep(int lists) {
    return "[".repeat(lists) + "1" + "]".repeat(lists);
  }

  @Test
  void aLongFailureDoesNotHideItsMember() throws IOException {
    Presences presences = new Presences(directory);
    presences.write(
        member(0, ProcessHandle.current().pid()).failed("rank 0 \uD83D\n" + "x".repeat(100_000)));

    assertThat(presences.all())
        .singleElement()
        .satisfies(
            read -> assertThat(read.failure()).startsWith("rank 0 ??xxx").hasSizeLessThan(5_000));
  }

  /** nvrar top prints them, in a table. */
  @Test
  void longTextsAreCutAndTheDescriptorIsNot() throws IOException {
    Presences presences = new Presences(directory);
    Presence member = member(0, ProcessHandle.current().pid());
    presences.write(member);
    Path file = presences.fileOf(member);
    String wide = "x".repeat(20_000);
    String descriptor = Base64.getEncoder().encodeToString(new byte[3_000]);
    Files.writeString(
        file,
        Files.readString(file)
            .replace("\"host\":\"host\"", "\"host\":\"" + wide + "\"")
            .replace("\"AAAAAAAAAAA=\"", "\"" + descriptor + "\",\"failure\":\"" + wide + "\""));

    assertThat(presences.all())
        .singleElement()
        .satisfies(
            read -> {
              assertThat(read.host()).hasSizeLessThan(600);
              assertThat(read.failure()).hasSizeLessThan(5_000);
              assertThat(read.descriptor()).hasSize(3_000);
            });
  }

  @Test
  void onlyTheMembersOfThisMachineAreLookedAt() throws IOException {
    new Presences(directory).write(member(0, NO_PROCESS));

    assertThat(new HostWatch(directory, () -> MACHINE).look())
        .singleElement()
        .satisfies(sample -> assertThat(sample.state()).isEqualTo("gone"));
    assertThat(new HostWatch(directory, () -> "another machine").look()).isEmpty();
  }

  @Test
  void theLibraryIsAskedOnlyWhereThereAreMembers() throws IOException {
    HostWatch without =
        new HostWatch(
            directory,
            () -> {
              throw new BackendUnavailableException("no library");
            });
    assertThat(without.look()).isEmpty();

    new Presences(directory).write(member(0, NO_PROCESS));

    assertThat(without.look())
        .singleElement()
        .satisfies(
            sample -> {
              assertThat(sample.state()).isEqualTo("unseen");
              assertThat(sample.problem()).isEqualTo("no library");
            });
  }

  /** As the kernel cuts names off after 15 bytes. */
  @Test
  void aProcessWhoseNameIsNoTextIsFound() throws Exception {
    Process process =
        new ProcessBuilder("bash", "-c", "printf 'n\\303' > /proc/$$/comm; echo; read").start();
    try {
      assertThat(process.getInputStream().read()).isEqualTo('\n');
      assertThat(LinuxProcess.started(process.pid())).isPositive();
      assertThat(LinuxProcess.lives(process.pid(), LinuxProcess.started(process.pid()))).isTrue();
    } finally {
      process.destroyForcibly().waitFor();
    }
    assertThat(LinuxProcess.lives(process.pid(), LinuxProcess.started(process.pid())))
        .as("a process that has ended")
        .isFalse();
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
