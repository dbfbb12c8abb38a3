package io.nvrar.examples.graph;

import static org.assertj.core.api.Assertions.assertThat;

import io.ray.api.Ray;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** The lesson compares residuals exactly, so it refuses steps whose residuals are not exact. */
class GraphCommandTest {
  private static final int EXACT = 1 << 24;

  @AfterEach
  void end() {
    Ray.shutdown();
    System.clearProperty("ray.address");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4, 8})
  void theLargestResidualOfTheMostCallsIsExact(int world) {
    int sum = 0;
    for (int rank = 0; rank < world; rank++) {
      sum += rank + 8; // the largest number of any replay
    }
    long most = Replayer.mostCalls(world);
    assertThat(most * sum).isBetween((long) EXACT - sum + 1, (long) EXACT);
  }

  @Test
  void moreCallsAreRefusedInOneSentence() {
    StringBuilder said = new StringBuilder();
    int code =
        new CommandLine(new GraphCommand())
            .setParameterExceptionHandler(
                (exception, rest) -> {
                  said.append(exception.getMessage());
                  return 2;
                })
            .execute("--address", "127.0.0.1:1", "--ranks", "4", "--calls", "441506");
    assertThat(said.toString())
        .isEqualTo(
            "--calls is 441506; with 4 ranks it must be 441505 or less, for float32 to hold the residuals exactly");
    assertThat(code).isEqualTo(2);
  }
}
