package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AtomicFilesTest {
  @TempDir private Path directory;

  @Test
  void theFirstOneStays() throws IOException {
    Path target = directory.resolve("target");
    assertThat(AtomicFiles.publish(written("first"), target)).isTrue();
    assertThat(AtomicFiles.publish(written("second"), target)).isFalse();
    assertThat(target).hasContent("first");
  }

  /** Linux lets nobody link a directory, with the error it has for all files of a FAT. */
  @Test
  void whatCannotBeLinkedIsRenamedAndReplacesNothing() throws IOException {
    Path target = directory.resolve("target");
    Path first = Files.createDirectory(directory.resolve("first"));
    Path second = Files.createDirectory(directory.resolve("second"));
    assertThatThrownBy(() -> Files.createLink(target, first))
        .isInstanceOf(FileSystemException.class)
        .isNotInstanceOf(FileAlreadyExistsException.class);
    assertThat(AtomicFiles.publish(first, target)).isTrue();
    assertThat(first).doesNotExist();
    assertThat(AtomicFiles.publish(second, target)).isFalse();
    assertThat(second).exists();
  }

  @Test
  void whatCanBeNeitherLinkedNorRenamedIsAnError() throws IOException {
    Path nowhere = directory.resolve("missing").resolve("target");
    Path temporary = written("text");
    assertThatThrownBy(() -> AtomicFiles.publish(temporary, nowhere))
        .isInstanceOf(NoSuchFileException.class);
    assertThat(temporary).exists();
  }

  @Test
  void aLinkLeadsToWhatReplacesItsFileAndNothingElseIsLeft() throws IOException {
    Path file = Files.writeString(directory.resolve("file"), "before");
    Path link = Files.createSymbolicLink(directory.resolve("link"), file.getFileName());
    Object inode = Files.getAttribute(file, "unix:ino");
    AtomicFiles.replace(link, "after \uD83D");
    assertThat(link).isSymbolicLink().hasContent("after ?");
    assertThat(Files.getAttribute(file, "unix:ino"))
        .as("a reader has the old one")
        .isNotEqualTo(inode);
    AtomicFiles.replace(directory.resolve("new"), "new");
    try (Stream<Path> files = Files.list(directory)) {
      assertThat(files.map(one -> "" + one.getFileName()))
          .containsExactlyInAnyOrder("file", "link", "new");
    }
  }

  @Test
  void aDeviceIsWrittenAndStaysAndAFailureNamesTheFile() {
    Path full = Path.of("/dev/full");
    assertThatThrownBy(() -> AtomicFiles.replace(full, "text"))
        .isInstanceOf(IOException.class)
        .hasMessage("/dev/full cannot be written: No space left on device");
    assertThat(Files.isRegularFile(full)).isFalse();
    assertThatThrownBy(() -> AtomicFiles.replace(directory, "text"))
        .hasMessage(directory + " cannot be written: Is a directory");
    Path nowhere = directory.resolve("missing").resolve("file");
    assertThatThrownBy(() -> AtomicFiles.replace(nowhere, "text"))
        .hasMessageStartingWith(nowhere + " cannot be written: ");
  }

  private Path written(String text) throws IOException {
    return Files.writeString(Files.createTempFile(directory, ".", ".tmp"), text);
  }
}
