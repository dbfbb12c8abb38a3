package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

/** What the kernels' choices are compared with is right itself. */
final class TokenNoiseTest {
  @Test
  void theGeneratorGivesItsAuthorsWords() {
    // Known answers of Random123, philox4x32 with 10 rounds. Theirs have a fourth counter word.
    assertThat(TokenNoise.bits(0, 0, 0, 0)).isEqualTo(0x6627e8d5);
  }

  @Test
  void theNoiseHasTheDistributionsMean() {
    double sum = 0;
    int count = 200_000;
    for (int token = 0; token < count; token++) {
      sum += TokenNoise.gumbel(TokenNoise.bits(7, 1, 2, token));
    }
    assertThat(sum / count).isCloseTo(0.5772, within(0.02));
  }

  @Test
  void aGreaterValueHasAGreaterKeyAndThenTheSmallerToken() {
    float[] rising = {Float.NEGATIVE_INFINITY, -2, -1, -0.5f, 0, 1e-30f, 1, 3e38f};
    for (int i = 1; i < rising.length; i++) {
      assertThat(
              Long.compareUnsigned(
                  TokenNoise.key(rising[i], 900), TokenNoise.key(rising[i - 1], 1)))
          .isPositive();
    }
    assertThat(Long.compareUnsigned(TokenNoise.key(1, 5), TokenNoise.key(1, 6))).isPositive();
    assertThat(TokenNoise.token(TokenNoise.key(-3, 77))).isEqualTo(77);
    assertThat(TokenNoise.value(TokenNoise.key(-3, 77))).isEqualTo(-3);
    assertThat(TokenNoise.value(TokenNoise.key(4, 77))).isEqualTo(4);
  }
}
