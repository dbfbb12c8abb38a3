package io.nvrar.internal.loading;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LoadAttemptsTest {
  private final IOException full =
      new FileSystemException("/cache/x", null, "No space left on device");
  private final Error noexec = new UnsatisfiedLinkError("failed to map segment");

  @Test
  void aDiskThatIsFullMayPassWhicheverPathFailedFirst() {
    for (List<Throwable> causes : List.of(List.of(full, noexec), List.of(noexec, full))) {
      LoadAttempts attempts = new LoadAttempts();
      causes.forEach(cause -> attempts.failed("/cache/x", "why", cause));
      assertThat(attempts.mayPass()).isTrue();
      assertThat(attempts.toException("what")).hasCause(causes.get(0));
    }
  }

  /** NativeLibrariesTest has the volume that is mounted noexec. */
  @Test
  void aFileThatTheLinkerRefusesForAnotherReasonIsNotSaidToBeOnSuchAVolume(@TempDir Path directory)
      throws IOException {
    Path file = Files.createFile(directory.resolve("libx.so"));
    for (String permissions : List.of("rw-------", "r-x------")) {
      Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
      assertThat(LoadAttempts.reason(file)).isEqualTo("it cannot be linked");
    }
  }

  @Test
  void whatIsMissingForbiddenOrBrokenStays() {
    LoadAttempts attempts = new LoadAttempts();
    attempts.failed("/a", "there is no such file");
    attempts.unreadable("class path:x", "the jar is missing", new NoSuchFileException("x"));
    attempts.notExtracted("/b", new AccessDeniedException("/b"));
    attempts.failed("/c", "it cannot be linked", noexec);
    assertThat(attempts.mayPass()).isFalse();
  }
}
