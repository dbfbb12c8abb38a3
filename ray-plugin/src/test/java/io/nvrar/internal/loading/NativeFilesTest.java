package io.nvrar.internal.loading;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.internal.PrivateDirectory;
import io.nvrar.internal.binding.TestLibrary;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeFilesTest {
  private static final byte[] MAIN = {1, 2, 3, 4};
  private static final byte[] SIBLING = new byte[1 << 20];

  @TempDir private Path scratch;

  private final NativeFiles files =
      new NativeFiles("1.0", Map.of("libmain.so", MAIN, "libsibling.so", SIBLING));

  @Test
  void aSetStandsWholeInOnePrivateDirectoryNamedByItsContent() throws IOException {
    Path root = scratch.resolve("new/parents/nvrar");
    Path directory = files.extractTo(root);
    assertThat(directory).isEqualTo(root.resolve(files.directoryName()));
    assertThat(directory.getFileName().toString()).matches("1\\.0-[0-9a-f]{16}");
    assertThat(directory.resolve("libmain.so")).hasBinaryContent(MAIN);
    assertThat(directory.resolve("libsibling.so")).hasBinaryContent(SIBLING);
    assertThat(permissions(root)).isEqualTo("rwx------");
    assertThat(permissions(directory)).isEqualTo("rwx------");
    assertThat(permissions(directory.resolve("libmain.so"))).isEqualTo("r-x------");
    assertOnlyTheSetIn(directory);
  }

  @Test
  void otherContentOrOtherNamesGoElsewhere() {
    assertThat(new NativeFiles("1.0", Map.of("libmain.so", SIBLING)).directoryName())
        .isNotEqualTo(new NativeFiles("1.0", Map.of("libmain.so", MAIN)).directoryName());
    assertThat(new NativeFiles("1.0", Map.of("libother.so", MAIN)).directoryName())
        .isNotEqualTo(new NativeFiles("1.0", Map.of("libmain.so", MAIN)).directoryName());
  }

  @Test
  void whatIsThereAndRightIsNotWrittenAgain() throws IOException {
    Path file = files.extractTo(scratch.resolve("nvrar")).resolve("libmain.so");
    Object inode = Files.getAttribute(file, "unix:ino");
    files.extractTo(scratch.resolve("nvrar"));
    assertThat(Files.getAttribute(file, "unix:ino")).isEqualTo(inode);
  }

  @Test
  void anInterruptOfTheThreadDoesNotKeepTheSetFromBeingWritten() throws IOException {
    Thread.currentThread().interrupt();
    Path directory = files.extractTo(scratch.resolve("nvrar"));
    assertThat(Thread.interrupted()).as("the interrupt flag is kept").isTrue();
    assertThat(directory.resolve("libsibling.so")).hasBinaryContent(SIBLING);
  }

  @Test
  void aTruncatedAlteredOrLinkedFileIsReplaced() throws IOException {
    Path root = scratch.resolve("nvrar");
    Path directory = files.extractTo(root);
    Path file = directory.resolve("libmain.so");
    for (byte[] wrong : new byte[][] {{}, {1, 2, 3}, {1, 2, 3, 5}}) {
      Files.delete(file);
      Files.write(file, wrong);
      files.extractTo(root);
      assertThat(file).hasBinaryContent(MAIN);
    }
    Files.delete(file);
    Path elsewhere = Files.write(scratch.resolve("elsewhere"), MAIN);
    Files.createSymbolicLink(file, elsewhere);
    files.extractTo(root);
    assertThat(Files.isSymbolicLink(file)).isFalse();
    assertThat(file).hasBinaryContent(MAIN);
    assertOnlyTheSetIn(directory);
  }

  @Test
  void aDirectoryThatOthersMayWriteIsRefused() throws IOException {
    Path root = Files.createDirectory(scratch.resolve("shared"));
    Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertThatThrownBy(() -> files.extractTo(root))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("writable by other users")
        .hasMessageContaining("chmod 700");
    try (Stream<Path> left = Files.list(root)) {
      assertThat(left).isEmpty();
    }
  }

  @Test
  void aLinkInsteadOfTheDirectoryIsRefused() throws IOException {
    Path target = Files.createDirectory(scratch.resolve("target"));
    Path root = Files.createSymbolicLink(scratch.resolve("link"), target);
    assertThatThrownBy(() -> files.extractTo(root))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("is not a directory");
  }

  @Test
  void temporariesOfKilledProcessesGoAndThoseOfRunningOnesStay() throws IOException {
    Path root = scratch.resolve("nvrar");
    Path directory = root.resolve(files.directoryName());
    PrivateDirectory.ensure(root);
    PrivateDirectory.ensure(directory);
    Path old = Files.createFile(directory.resolve(".libmain.so1.tmp"));
    Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofHours(2))));
    Path recent = Files.createFile(directory.resolve(".libmain.so2.tmp"));
    files.extractTo(root);
    assertThat(old).doesNotExist();
    assertThat(recent).exists();
  }

  @Test
  void threadsThatExtractAtOnceAllFindTheWholeSet() throws Exception {
    int threads = 8;
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      for (int round = 0; round < 5; round++) {
        Path root = scratch.resolve("round" + round);
        CyclicBarrier start = new CyclicBarrier(threads);
        Callable<Path> extract =
            () -> {
              start.await(30, TimeUnit.SECONDS);
              Path directory = files.extractTo(root);
              assertThat(directory.resolve("libmain.so")).hasBinaryContent(MAIN);
              assertThat(directory.resolve("libsibling.so")).hasBinaryContent(SIBLING);
              return directory;
            };
        List<Future<Path>> results = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
          results.add(pool.submit(extract));
        }
        for (Future<Path> result : results) {
          result.get(60, TimeUnit.SECONDS);
        }
        assertOnlyTheSetIn(root.resolve(files.directoryName()));
      }
    } finally {
      pool.shutdownNow();
    }
  }

  @Test
  void aMissingResourceIsNamed() {
    assertThatThrownBy(
            () ->
                NativeFiles.fromClassPath(
                    TestLibrary.emptyClassLoader(scratch), "1.0", "a/folder", List.of("x.so")))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("a/folder/x.so");
  }

  private static String permissions(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }

  private static void assertOnlyTheSetIn(Path directory) throws IOException {
    try (Stream<Path> left = Files.list(directory)) {
      assertThat(left.map(path -> path.getFileName().toString()))
          .containsExactlyInAnyOrder("libmain.so", "libsibling.so");
    }
  }
}
