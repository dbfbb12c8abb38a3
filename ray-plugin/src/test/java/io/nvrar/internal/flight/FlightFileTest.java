package io.nvrar.internal.flight;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.internal.binding.CallRecord.State;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FlightFileTest {
  private static final FlightRecord RECORD =
      Records.of(
          "TIMEOUT",
          -1,
          List.of(1),
          Records.calls(3, State.FAILED, 1024),
          List.of(),
          Records.list(Records.transfer(true, 1, 0, State.RUNNING, 7)));

  @TempDir private Path scratch;
  private Path directory;

  @BeforeEach
  void nameTheDirectory() {
    directory = scratch.resolve("flight");
  }

  private FlightFile file(String group) {
    return new FlightFile(directory, group, "0a1b2c3d", "node.example");
  }

  private List<String> names() throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.map(path -> path.getFileName().toString()).sorted().toList();
    }
  }

  @Test
  void aLinkOfTheUsersStaysAndItsFileIsReplaced() throws IOException {
    Path user = Files.createDirectory(scratch.resolve("user"));
    Path file = Files.writeString(user.resolve("file.jsonl"), "before");
    Path link = Files.createSymbolicLink(user.resolve("link.jsonl"), file);
    FlightFile.write(RECORD, link);
    assertThat(link).isSymbolicLink();
    assertThat(FlightFile.read(file).ranks()).hasSameSizeAs(RECORD.ranks());
    assertThatThrownBy(() -> FlightFile.write(RECORD, user))
        .isInstanceOf(IOException.class)
        .hasMessage(user + " is no regular file");
  }

  @Test
  void whatIsWrittenIsRead() throws IOException {
    FlightFile file = file("tp/0");
    file.write(() -> RECORD);
    assertThat(file.path()).hasFileName("tp_0-0a1b2c3d-node_example.jsonl");
    assertThat(FlightFile.read(file.path())).isEqualTo(RECORD);
    assertThat(names()).containsExactly("tp_0-0a1b2c3d-node_example.jsonl");
    assertThat(Files.getPosixFilePermissions(directory))
        .isEqualTo(PosixFilePermissions.fromString("rwx------"));
  }

  @Test
  void noControlCharacterOfAFileReachesWhoReadsIt() throws IOException {
    FlightFile file = file("tp");
    file.write(() -> RECORD);
    String text = Files.readString(file.path());
    for (String name : List.of("group", "message", "build", "call", "host")) {
      String hostile =
          text.replaceAll(
              "\"" + name + "\":\"(?:[^\"\\\\]|\\\\.)*\"",
              "\"" + name + "\":\"a\\\\n\\\\u001b[2Jb\u0085c\"");
      assertThat(hostile).isNotEqualTo(text);
      Files.writeString(file.path(), hostile);
      assertThat(FlightFile.read(file.path()).toString())
          .contains("a??[2Jb?c")
          .doesNotContainPattern("\\p{Cc}");
    }
  }

  @Test
  void theFirstMemberWinsAndTheOthersDoNotEvenAskForTheCalls() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    ExecutorService threads = Executors.newCachedThreadPool();
    List<Future<?>> members = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      members.add(
          threads.submit(
              () -> {
                file("tp")
                    .write(
                        () -> {
                          asked.incrementAndGet();
                          return RECORD;
                        });
                assertThat(file("tp").path()).exists();
                return null;
              }));
    }
    for (Future<?> member : members) {
      member.get();
    }
    threads.shutdown();
    assertThat(asked).hasValue(1);
    assertThat(names()).hasSize(1);
  }

  @Test
  void hostsWhoseLongNamesDifferAtTheirEndsWriteAFileEach() throws IOException {
    for (String end : List.of("a", "b")) {
      new FlightFile(directory, "tp", "0a1b2c3d", "h".repeat(200) + end).write(() -> RECORD);
    }
    assertThat(names()).hasSize(2).allMatch(name -> name.length() < 100);
  }

  @Test
  void aMemberThatWasKilledAsItWroteIsReplaced() throws IOException {
    file("other").write(() -> RECORD);
    Files.createFile(directory.resolve(".tp-0a1b2c3d-node_example.jsonl.claim"));
    Files.createFile(directory.resolve(".tp-0a1b2c3d-node_example.jsonl123.tmp"));
    file("tp").write(() -> RECORD);
    assertThat(FlightFile.read(file("tp").path())).isEqualTo(RECORD);
    assertThat(names()).noneMatch(name -> name.endsWith(".claim"));
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** As on a full disk, where waiting for another one would only hold up an exception. */
  @Test
  void aMemberThatCannotWriteIsReplacedAtOnce() throws Exception {
    CountDownLatch writes = new CountDownLatch(1);
    CountDownLatch fails = new CountDownLatch(1);
    ExecutorService threads = Executors.newCachedThreadPool();
    Future<?> first =
        threads.submit(
            () -> {
              file("tp")
                  .write(
                      () -> {
                        writes.countDown();
                        await(fails);
                        throw new UncheckedIOException(new IOException("no space left"));
                      });
              return null;
            });
    writes.await();
    long begin = System.nanoTime();
    Future<?> second =
        threads.submit(
            () -> {
              file("tp").write(() -> RECORD);
              return null;
            });
    Thread.sleep(100);
    fails.countDown();
    second.get();
    // One that waits until the first may have been killed, waits a second from its own begin.
    assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofSeconds(1));
    assertThatThrownBy(first::get).hasRootCauseMessage("no space left");
    assertThat(FlightFile.read(file("tp").path())).isEqualTo(RECORD);
    threads.shutdown();
  }

  @Test
  void theOldestGoWhenThereAreTooMany() throws IOException {
    for (int i = 0; i < FlightFile.MAX_FILES + 3; i++) {
      FlightFile file = file("group" + i);
      file.write(() -> RECORD);
      Files.setLastModifiedTime(file.path(), FileTime.fromMillis(1_000_000_000L * (i + 1)));
    }
    assertThat(names())
        .hasSize(FlightFile.MAX_FILES)
        .noneMatch(name -> name.startsWith("group0-") || name.startsWith("group2-"))
        .anyMatch(name -> name.startsWith("group18-"));
  }

  @Test
  void theFilesOfAGroupOfManyHostsStayAndThoseOfOthersGo() throws IOException {
    for (int i = 0; i < 3; i++) {
      FlightFile old = file("old" + i);
      old.write(() -> RECORD);
      Files.setLastModifiedTime(old.path(), FileTime.fromMillis(1_000_000_000L * (i + 1)));
    }
    for (int i = 0; i < FlightFile.MAX_FILES + 4; i++) {
      new FlightFile(directory, "tp", "0a1b2c3d", "node" + i).write(() -> RECORD);
    }
    assertThat(names())
        .hasSize(FlightFile.MAX_FILES + 4)
        .allMatch(name -> name.startsWith("tp-0a1b2c3d-node"));
    file("next").write(() -> RECORD);
    assertThat(names()).hasSize(FlightFile.MAX_FILES).contains("next-0a1b2c3d-node_example.jsonl");
  }

  @Test
  void anOldestThatCannotGoTakesNothingFromWhatWasWritten() throws IOException {
    Path stuck = directory.resolve("stuck.jsonl");
    file("group0").write(() -> RECORD);
    Files.createDirectories(stuck.resolve("what keeps it"));
    Files.setLastModifiedTime(stuck, FileTime.fromMillis(0));
    for (int i = 1; i < FlightFile.MAX_FILES + 3; i++) {
      FlightFile file = file("group" + i);
      file.write(() -> RECORD);
      assertThat(file.path()).exists();
    }
    assertThat(names()).contains("stuck.jsonl").hasSize(FlightFile.MAX_FILES + 1);
  }

  @Test
  void aDirectoryOfOthersIsNotUsed() throws IOException {
    Files.createDirectory(directory);
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertThatThrownBy(() -> file("tp").write(() -> RECORD))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("is writable by other users");
  }

  @Test
  void aBadFileIsOneSentence() throws IOException {
    Path bad = scratch.resolve("bad.jsonl");
    assertRefused(bad, " does not exist");
    assertRefused(scratch, " is not a file");
    Files.writeString(bad, "");
    assertRefused(bad, "it does not begin with");
    Files.writeString(bad, "no json\n");
    assertRefused(bad, "line 1 is no JSON");
    Files.writeString(bad, "[1]\n");
    assertRefused(bad, "line 1 is no JSON object");
    Files.write(bad, new byte[] {'{', (byte) 0xff, '}'});
    assertRefused(bad, "it is no text");
    file("tp").write(() -> RECORD);
    List<String> lines = Files.readAllLines(file("tp").path());
    Files.writeString(bad, lines.get(0).replace("\"nvrarFlight\":1", "\"nvrarFlight\":2"));
    assertRefused(bad, "it has version 2, this program reads version 1");
    Files.writeString(bad, lines.get(0).replace("\"worldSize\":3", "\"worldSize\":2000000000"));
    assertRefused(bad, "its world size is 2000000000, must be 1 to 512");
    Files.writeString(bad, lines.get(0).replace("\"missing\":[1]", "\"missing\":[3]"));
    assertRefused(bad, "it names rank 3 of a world of size 3");
    Files.writeString(bad, lines.get(0).replace("\"writer\":0", "\"writer\":{}"));
    assertRefused(bad, "line 1 has a value of another kind");
    // As deep as a line is long: Gson's tree of it must be neither printed nor compared.
    String deep = "[".repeat(32_000) + "]".repeat(32_000);
    Files.writeString(bad, deep);
    assertRefused(bad, "line 1 is no JSON object");
    Files.writeString(bad, lines.get(0).replace("\"writer\":0", "\"writer\":" + deep));
    assertRefused(bad, "line 1 has a value of another kind");
    Files.writeString(bad, "{\"a\":".repeat(10_000));
    assertRefused(bad, "line 1 is no JSON");
    Files.write(bad, lines.subList(0, 3));
    assertRefused(bad, "it ends after 1 of the 3 calls of rank 0");
    Files.write(bad, lines.subList(0, 5));
    assertRefused(bad, "it ends after 1 of 3 ranks");
  }

  private static void assertRefused(Path file, String why) {
    assertThatThrownBy(() -> FlightFile.read(file))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(file.toString())
        .hasMessageContaining(why)
        .message()
        .hasSizeLessThan(500)
        .doesNotContain("\n");
  }
}
