package io.nvrar.tools.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class MeasuringProgramTest {
  private static final int LIMIT_SECONDS = 20;

  @Test
  void aProgramThatAsksIsNotWaitedFor() throws Exception {
    assertThat(run("read answer; echo \"got $answer\" > \"$1\"")).containsExactly("got ");
  }

  @Test
  void aProgramThatWritesNothingIsAFailureInOneSentence() {
    assertThatThrownBy(() -> run("exit 0"))
        .isInstanceOf(IOException.class)
        .hasMessageEndingWith(": it has written no results");
  }

  @ParameterizedTest
  @ValueSource(strings = {"trap '' TERM", "true"})
  void whatAProgramHasStartedEndsWithItWhenItTakesTooLong(String first, @TempDir Path directory)
      throws Exception {
    Path pid = directory.resolve("pid");
    String script = String.format(Locale.ROOT, "%s; sleep 600 & echo $! > '%s'; wait", first, pid);
    MeasuringProgram program =
        new MeasuringProgram(List.of("bash", "-c", script, "program"), List.of("program"), 1);
    assertThatThrownBy(() -> program.run("--json", line -> {}))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("has not ended within 1 s");
    long started = Long.parseLong(Files.readString(pid).strip());
    long deadline = System.nanoTime() + 10_000_000_000L;
    while (isAlive(started) && System.nanoTime() < deadline) {
      Thread.sleep(20);
    }
    assertThat(isAlive(started)).isFalse();
  }

  // Whoever inherits a process that has ended may leave it a zombie.
  private static boolean isAlive(long pid) throws IOException {
    Path status = Path.of("/proc/" + pid + "/status");
    try {
      return !Files.readString(status).contains("State:\tZ");
    } catch (NoSuchFileException e) {
      return false;
    }
  }

  private static List<String> run(String script) throws IOException, InterruptedException {
    return new MeasuringProgram(List.of("bash", "-c", script), List.of("program"), LIMIT_SECONDS)
        .run("--json", line -> {});
  }
}
