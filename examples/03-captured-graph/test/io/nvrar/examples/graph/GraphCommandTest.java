package io.nvrar.examples.graph;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.standalone.Groups;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/** The lesson compares residuals exactly, so it refuses steps whose residuals are not exact. */
class GraphCommandTest {
  private static final int EXACT = 1 << 24;

  @Test
  void theLargestResidualOfTheMostCallsIsExact() {
    long sum = 0;
    for (int rank = 0; rank < Groups.MAX_NODE_SIZE; rank++) {
      sum += rank + 8; // the largest number of any replay
    }
    assertThat(Replayer.MOST_CALLS * sum).isBetween(EXACT - sum + 1, (long) EXACT);
  }

  /** Before a cluster is looked for: there is none at that address. */
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
            .execute("--address", "127.0.0.1:1", "--calls", "182362");
    assertThat(said.toString())
        .isEqualTo(
            "--calls is 182362, must be 1 to 182361, for float32 to hold the residuals exactly");
    assertThat(code).isEqualTo(2);
  }
}
