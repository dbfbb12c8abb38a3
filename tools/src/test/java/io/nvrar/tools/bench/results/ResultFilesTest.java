package io.nvrar.tools.bench.results;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.tools.bench.results.ResultFiles.Run;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ResultFilesTest {
  private static final Run RUN =
      new Run(
          "2 cores of \"A & B\", Linux",
          "bin/nvrar bench --json x",
          List.of(
              TestRows.onHost(Implementation.CPP, 1024, 1.25, 2.0, 1.5),
              TestRows.onGpus(Implementation.NCCL, 4096, Mode.GRAPH_COMPUTE, 7.0)));

  @TempDir private Path directory;
  private Path file;

  @BeforeEach
  void write() throws IOException {
    file = directory.resolve("results.json");
    ResultFiles.json(file, RUN);
  }

  @Test
  void whatWasWrittenIsReadAgain() throws IOException {
    assertThat(ResultFiles.read(file)).isEqualTo(RUN);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "\"machine\": \"[^\\n]*  | \"machine\": [],     | has no machine",
        "\"results\": \\[         | \"rows\": [          | it has no results",
        "\"mode\": \"calls\",     | ''                   | result 1 has no mode",
        "\"time_us\": 1.5         | \"time_us\": \"x\"   | a number of result 1 cannot be read",
        "\"time_us\": 1.5         | \"time_us\": NaN     | result 1 has a time or a size that cannot be",
        "\"time_us\": 7.0         | \"time_us\": -7.0    | result 2 has a time or a size that cannot be",
        "\"algbw_gbps\": [0-9.]* | \"algbw_gbps\": NaN  | result 1 has a time or a size that cannot be",
        "\"bytes\": 1024          | \"bytes\": -1        | result 1 has a time or a size that cannot be",
        "\"bytes\": 1024          | \"bytes\": 10.5      | a number of result 1 cannot be read",
        "\"c\\+\\+\"              | \"c--\"              | result 1 is of 'c--', which this version does not know",
        "^\\{                     | [                    | it is no JSON",
        "^                        | 1                    | it is no JSON",
      })
  void fileThatIsNotOursIsRefusedInASentence(String part, String other, String sentence)
      throws IOException {
    String text = Files.readString(file, UTF_8);
    String damaged = text.replaceFirst(part, other);
    assertThat(damaged).isNotEqualTo(text);
    Files.writeString(file, damaged, UTF_8);
    assertThatThrownBy(() -> ResultFiles.read(file))
        .isInstanceOf(IOException.class)
        .hasMessageStartingWith(file + " is not a file of nvrar bench --json: ")
        .hasMessageContaining(sentence);
  }

  @Test
  void emptyBinaryAndMissingFilesAreRefused() throws IOException {
    Files.write(file, new byte[0]);
    assertThatThrownBy(() -> ResultFiles.read(file)).hasMessageEndingWith(": it is no JSON object");
    Files.write(file, new byte[] {(byte) 0xff, (byte) 0xfe, 0});
    assertThatThrownBy(() -> ResultFiles.read(file)).hasMessageEndingWith(": it is no JSON");
    Files.writeString(file, "{\"machine\": \"\", \"command\": \"\", \"results\": [7]}");
    assertThatThrownBy(() -> ResultFiles.read(file))
        .hasMessageEndingWith(": result 1 is no JSON object");
    assertThatThrownBy(() -> ResultFiles.read(directory))
        .hasMessage("there is no file " + directory);
  }

  @Test
  void whatWouldChangeATerminalIsNotTakenOver() throws IOException {
    String text = Files.readString(file, UTF_8);
    Files.writeString(file, text.replace("bin/nvrar bench", "\\u001b[2Jbench"), UTF_8);
    assertThat(ResultFiles.read(file).command()).isEqualTo("?[2Jbench --json x");
    Files.writeString(file, text.replace("\"time_us\": 1.5", "\"time_us\": \"\\u001b[2J\""), UTF_8);
    assertThatThrownBy(() -> ResultFiles.read(file)).hasMessageContaining("\"?[2J\"");
  }
}
