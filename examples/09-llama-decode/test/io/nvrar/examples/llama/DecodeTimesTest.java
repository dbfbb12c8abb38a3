package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.junit.jupiter.api.Test;

final class DecodeTimesTest {
  private final DecodeTimes times = new DecodeTimes();

  @Test
  void whatFollowsTheLastTokenIsNoneOfItsTime() throws Exception {
    times.begin();
    times.token();
    times.token();
    Thread.sleep(30);
    times.end(5_000_000);
    double[] seconds = times.toArray();
    assertThat(seconds[0]).isLessThanOrEqualTo(seconds[1]);
    assertThat(seconds[4] - seconds[1]).isGreaterThanOrEqualTo(0.03);
    assertThat(seconds[2]).isEqualTo(0.005);
    assertThat(seconds[3]).isEqualTo(2);
    assertThat(seconds[4]).isBetween(0.03, 10.0);
  }

  @Test
  void tokensPerSecondAreThoseUntilTheLastTokenAndTheShareIsOfAllTime() {
    // 2 sequences of 11 tokens each: the first ones after 1 s, the last after 3 s, the end after 4.
    List<double[]> ranks = List.of(new double[] {1, 3, 2, 22, 4}, new double[] {1, 3, 1, 22, 4});
    DecodeSummary summary = DecodeSummary.of(7, 1.5, "", 2, ranks);
    assertThat(summary.tokensPerSecond()).isCloseTo(10, within(1e-9));
    assertThat(summary.decodeSeconds()).isEqualTo(3);
    assertThat(summary.collectiveShare()).isCloseTo((0.5 + 0.25) / 2, within(1e-9));
  }

  @Test
  void anEngineThatCannotTellHasNoShare() {
    List<double[]> ranks = List.of(new double[] {1, 3, -1, 21, 4});
    assertThat(DecodeSummary.of(7, 1.5, "", 1, ranks).sentence())
        .isEqualTo("21 tokens, 10.0 tokens/s, first token after 1.500 s (ready after 7.0 s).");
    assertThat(DecodeSummary.of(7, 1.5, "cuBLASLt 13.1.0", 1, ranks).sentence())
        .isEqualTo(
            "21 tokens, 10.0 tokens/s, first token after 1.500 s (ready after 7.0 s, prefill by cuBLASLt 13.1.0).");
  }
}
