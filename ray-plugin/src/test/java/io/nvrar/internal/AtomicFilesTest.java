package io.nvrar.internal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
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
  void aLinkThatLeadsToNoFileYetStaysAndTheFileIsMade() throws IOException {
    Path file = Files.createDirectory(directory.resolve("elsewhere")).resolve("file");
    Path link = Files.createSymbolicLink(directory.resolve("link"), file);
    AtomicFiles.replace(link, "text");
    assertThat(link).isSymbolicLink();
    assertThat(file).isRegularFile().hasContent("text");
  }

  @Test
  void aLinkLeadsToAFileThatIsWrittenWhereNoOtherCanBeMade() throws IOException {
    Path closed = Files.createDirectory(directory.resolve("closed"));
    Path file = Files.writeString(closed.resolve("file"), "a longer text before");
    Path link = Files.createSymbolicLink(directory.resolve("link"), file);
    Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("r-xr-xr-x"));
    try {
      assumeThat(Files.isWritable(closed)).as("root writes everywhere").isFalse();
      AtomicFiles.replace(link, "after");
    } finally {
      Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rwxr-xr-x"));
    }
    assertThat(link).isSymbolicLink();
    assertThat(file).hasContent("after");
  }

  @Test
  void aFileKeepsItsPermissionsAndANewOneHasThoseOfAnyFile() throws IOException {
    Path file = Files.writeString(directory.resolve("file"), "before");
    Object ofAnyFile = Files.getPosixFilePermissions(file);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw----"));
    AtomicFiles.replace(file, "after");
    assertThat(Files.getPosixFilePermissions(file))
        .isEqualTo(PosixFilePermissions.fromString("rw-rw----"));
    Path fresh = directory.resolve("fresh");
    AtomicFiles.replace(fresh, "text");
    assertThat(Files.getPosixFilePermissions(fresh)).isEqualTo(ofAnyFile);
  }

  @Test
  void aContentThatFailsLeavesTheFileAsItWas() throws IOException {
    Path file = Files.writeString(directory.resolve("file"), "before");
    assertThatThrownBy(
            () ->
                AtomicFiles.replace(
                    file,
                    out -> {
                      out.write("half");
                      throw new IOException("no more of it");
                    }))
        .hasMessage(file + " cannot be written: no more of it");
    assertThat(file).hasContent("before");
    try (Stream<Path> files = Files.list(directory)) {
      assertThat(files).containsExactly(file);
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
