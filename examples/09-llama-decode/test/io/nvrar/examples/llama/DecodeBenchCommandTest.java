package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.bench.DecodeResultsTest;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

final class DecodeBenchCommandTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  @BeforeAll
  static void theReportIsInTheCheckout() {
    System.setProperty("nvrar.home", DecodeResultsTest.checkout().toString());
  }

  @AfterAll
  static void restore() {
    System.clearProperty("nvrar.home");
  }

  private int run(String... arguments) {
    return new CommandLine(new DecodeBenchCommand())
        .setOut(new PrintWriter(out, true))
        .setErr(new PrintWriter(err, true))
        .setExecutionExceptionHandler(
            (exception, command, parsed) -> {
              err.append(String.valueOf(exception.getMessage()));
              return 1;
            })
        .execute(arguments);
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          --shape 7b                        | --shape is 7b, and the shapes are 8b, 70b, 405b.
          --shape 8b --config FILE          | Give one of --shape, --config and --model.
          --config /nowhere/config.json     | There is no file /nowhere/config.json, and the shapes without one are 8b, 70b, 405b.
          --model /nowhere                  | There is no model directory /nowhere.
          --model /nowhere --layers 2       | --layers is for random weights only: a model has its own.
          --layers 0                        | --layers is 0, and must be 1 or more.
          --ranks 9                         | --ranks is 9, and must be 1 to 8.
          --ranks 3                         | The model has 32 attention heads, which 3 ranks do not divide.
          --batch 0                         | --batch is 0, and must be 1 to 64.
          --batch 1,65                      | --batch is 65, and must be 1 to 64.
          --batch 1,8,1                     | --batch has 1 twice.
          --context 1000                    | --context is 1000, and must be a multiple of 64.
          --context 131136                  | --context is 131136, and must be 1 to 131072.
          --all-reduce mpi                  | --all-reduce is mpi, and must be nvrar or nccl.
          --all-reduce nccl,nccl            | --all-reduce has nccl twice.
          --nccl libnccl.so.2               | --nccl is only for --all-reduce nccl.
          --prompt-tokens 0                 | --prompt-tokens is 0, and must be 1 to 131072.
          --steps 64                        | --steps is 64, and must be 1 to 63.
          --repeats 0                       | --repeats is 0, and must be 1 to 10000.
          --warmup -1                       | --warmup is -1, and must be 0 to 10000.
          --bandwidth 3350                  | --bandwidth is 3350.0, and must be terabytes in a second, more than 0 and at most 100.
          --json /nowhere/file.json         | There is no directory for /nowhere/file.json.
          --ranks 2                         | there is no Ray cluster: give --address HOST:PORT, or use bin/nvrar, which starts one
          """)
  void badInputIsOneSentence(String arguments, String sentence) {
    assertThat(run(arguments.split(" "))).isEqualTo(1);
    assertThat(err.toString()).isEqualTo(sentence);
    assertThat(out.toString()).isEmpty();
  }

  @Test
  void theCommandIsWhatAShellTakesWithoutTheAddressOfACluster() {
    assertThat(
            DecodeBenchCommand.command(
                List.of(
                    "decode-bench",
                    "--address",
                    "10.0.0.1:6379",
                    "--model",
                    "/my models/it's",
                    "--batch=1,8",
                    "--address=10.0.0.1:6379",
                    "--json",
                    "decode-bench")))
        .isEqualTo(
            "bin/nvrar decode-bench --model '/my models/it'\\''s' --batch=1,8 --json decode-bench");
  }

  @Test
  void aPageWithoutAPlaceForTheResultsIsRefused(@TempDir Path directory) throws Exception {
    Path page = Files.writeString(directory.resolve("page.md"), "# Text\n");
    assertThat(run("--ranks", "2", "--document", page.toString())).isEqualTo(1);
    assertThat(err.toString())
        .contains("has no place for the results", "decode-bench --document -->");
  }
}
