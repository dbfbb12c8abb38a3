package io.nvrar.tools;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A JVM answers only where the one that has started it listens. */
class AnswerPipeTest {
  private static final String TOLD = "-Dnvrar.answers=3";

  @TempDir private Path directory;

  /** What a member of the benchmark says that a shell starts, and its exit code. */
  private String member(String shell, String... jvmOptions) throws Exception {
    List<String> command = new ArrayList<>(List.of("/bin/sh", "-c", shell, precious().toString()));
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(jvmOptions));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Main.class.getName()));
    command.addAll(List.of("bench", "--backend", "cpu", "--member", "0", "--processes", "2"));
    command.addAll(List.of("--barrier", directory.resolve("barrier").toString()));
    Path said = directory.resolve("said");
    Process process =
        new ProcessBuilder(command)
            .redirectInput(Redirect.from(Path.of("/dev/null").toFile()))
            .redirectError(said.toFile())
            .start();
    try {
      assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    } finally {
      process.destroyForcibly();
    }
    return process.exitValue() + ": " + Files.readString(said);
  }

  private Path precious() {
    return directory.resolve("precious");
  }

  @Test
  void whatAJvmHasAsDescriptorThreeIsLeftAloneWhereNobodyListens() throws Exception {
    String refused =
        """
        2: nvrar: this option is for processes that the command starts by itself: there is no pipe for the answers
        nvrar: nvrar bench --help lists the options
        """;
    // Never without any descriptor 3, which then is a file of the JDK.
    for (String options : List.of("", TOLD)) {
      Files.writeString(precious(), "precious");
      assertThat(member("exec \"$@\" 3<>\"$0\"", options.isEmpty() ? "-Dx" : options))
          .isEqualTo(refused);
      assertThat(precious()).hasContent("precious");
    }
    assertThat(member("exec \"$@\" 3>&1", "-Dx")).as("a pipe of others").isEqualTo(refused);
  }

  @Test
  void answersComeWholeWhateverElseTheJvmWrites() throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xlog:gc=info:stderr", "-Xlog:gc=info:stdout"));
    command.addAll(
        List.of("-cp", System.getProperty("java.class.path"), Answering.class.getName()));
    Process process =
        AnswerPipe.starting(command).redirectError(directory.resolve("else").toFile()).start();
    try (BufferedReader answers = process.inputReader(UTF_8)) {
      assertThat(answers.lines()).containsExactly("one", "two");
    }
    assertThat(process.waitFor()).isZero();
    assertThat(directory.resolve("else")).content().contains("half");
  }

  /** Answers among what is no answer. */
  static final class Answering {
    private Answering() {}

    public static void main(String[] args) throws IOException {
      try (var answers = AnswerPipe.open()) {
        System.out.print("half");
        answers.println("one");
        System.err.print("half");
        System.gc();
        answers.println("two");
      }
    }
  }
}
