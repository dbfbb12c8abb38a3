package io.nvrar.tools;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class MainTest {
  @TempDir private Path scratch;
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(String... args) {
    return Main.run(new PrintWriter(out, true), new PrintWriter(err, true), args);
  }

  @Test
  void exitCodeIsTheOneThatTheCommandReturned() {
    assertThat(run("fail", "CODE_7", "--number", "3")).isEqualTo(10);
    assertThat(err.toString()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "MISMATCH      | nvrar: rank 1 has 4 ranks, rank 0 has 2",
        "WRAPPED       | nvrar: the ranks differ",
        "NO_FILE       | nvrar: NoSuchFileException: /no/such/config.json",
        "NO_MESSAGE    | nvrar: IllegalStateException",
        "SEVERAL_LINES | nvrar: first line",
      })
  void failureIsOneSentenceOnStandardErrorAndCode1(String how, String sentence) {
    assertThat(run("fail", how)).isEqualTo(1);
    assertThat(err.toString().strip()).isEqualTo(sentence);
    assertThat(out.toString()).isEmpty();
  }

  @Test
  void whoeverHasToReadALogOfAPrivateClusterReadsWhereItIsKept() {
    System.setProperty(Main.KEPT_LOGS_PROPERTY, "/checkout/ray-logs");
    try {
      assertThat(run("fail", "SEE_LOG")).isEqualTo(1);
    } finally {
      System.clearProperty(Main.KEPT_LOGS_PROPERTY);
    }
    assertThat(run("fail", "SEE_LOG")).isEqualTo(1);
    assertThat(err.toString().lines())
        .containsExactly(
            "nvrar: a log in Ray's session directory, kept in /checkout/ray-logs, says why",
            "nvrar: a log in Ray's session directory says why");
  }

  @Test
  void aLackOfMemoryIsASentenceWithTheRemedy() {
    long mebibytes = Runtime.getRuntime().maxMemory() >> 20;
    assertThat(run("fail", "NO_HEAP")).isEqualTo(1);
    assertThat(run("fail", "NO_DEVICE_MEMORY")).isEqualTo(1);
    assertThat(err.toString().lines())
        .containsExactly(
            String.format(
                Locale.ROOT,
                "nvrar: this command needs more memory than the %d MiB of its JVM; JAVA_TOOL_OPTIONS=-Xmx%dm gives it twice as much",
                mebibytes,
                2 * mebibytes),
            "nvrar: GPU 0 has no room for a buffer");
  }

  @Test
  void verboseShowsTheStackBeforeOrBehindTheCommandsName() {
    assertThat(run("fail", "MISMATCH", "--verbose")).isEqualTo(1);
    assertThat(run("--verbose", "fail", "MISMATCH")).isEqualTo(1);
    assertThat(err.toString().split("at io.nvrar.tools.Main.run", -1)).hasSize(3);
  }

  @Test
  void wrongOptionIsCode2AndNamesTheOption() {
    assertThat(run("fail", "CODE_7", "--nonsense")).isEqualTo(2);
    assertThat(err.toString()).startsWith("nvrar: ").contains("--nonsense").doesNotContain("\tat ");
  }

  @Test
  void wrongValueIsCode2AndNamesTheValue() {
    assertThat(run("fail", "--number", "many")).isEqualTo(2);
    assertThat(err.toString()).contains("many");
  }

  @Test
  void commandThatCannotBeLoadedIsNamedWhenACommandIsUnknown() {
    assertThat(run("no-such-command")).isEqualTo(2);
    assertThat(err.toString()).contains("no-such-command").contains("NoSuchCommandClass");
  }

  @Test
  void commandsOfTheClassPathAreListed() {
    assertThat(run("--help")).isZero();
    assertThat(out.toString()).contains("doctor").contains("fail");
  }

  @Test
  void outputThatIsLostIsAFailureUnlessItsReaderHasGone() throws IOException {
    try (PrintWriter full = new PrintWriter(new FileWriter("/dev/full", UTF_8), true);
        PrintWriter errors = new PrintWriter(err, true)) {
      full.println("text");
      Path file = Files.createSymbolicLink(scratch.resolve("file"), Path.of("/dev/full"));
      Path pipe = Files.createSymbolicLink(scratch.resolve("pipe"), Path.of("pipe:[1]"));
      assertThat(Main.written(0, full, errors, pipe)).isZero();
      assertThat(err.toString()).isEmpty();
      assertThat(Main.written(0, full, errors, file)).isEqualTo(1);
      assertThat(err.toString().strip()).isEqualTo("nvrar: standard output cannot be written");
      assertThat(Main.written(4, full, errors, file)).isEqualTo(4);
      assertThat(Main.written(0, errors, errors, file)).isZero();
    }
  }
}
