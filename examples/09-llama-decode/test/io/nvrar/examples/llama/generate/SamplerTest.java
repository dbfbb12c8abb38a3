package io.nvrar.examples.llama.generate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.weights.ModelException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

final class SamplerTest {
  private static final float[] LOGITS = {0f, 3f, -1f, 2f, Float.NEGATIVE_INFINITY, 1f};
  private static final int DRAWS = 20_000;

  @Test
  void temperatureZeroTakesTheGreatestAndTheFirstOfEquals() {
    Sampler sampler = new Sampler(Sampling.greedy(), 0);
    assertThat(sampler.choose(LOGITS)).isEqualTo(1);
    assertThat(sampler.choose(new float[] {-2f, 5f, 5f})).isEqualTo(1);
    assertThat(sampler.choose(new float[] {-3f, -2f, -4f})).isEqualTo(1);
  }

  @Test
  void tokensComeAsOftenAsTheirProbabilitySays() {
    int[] counts = draw(new Sampling(1, 0, 1, 7));
    double total = 0;
    for (float logit : LOGITS) {
      total += Math.exp(logit);
    }
    for (int token = 0; token < LOGITS.length; token++) {
      double expected = Math.exp(LOGITS[token]) / total;
      assertThat((double) counts[token] / DRAWS).isBetween(expected - 0.015, expected + 0.015);
    }
    assertThat(counts[4]).isZero();
  }

  @Test
  void aHigherTemperatureIsMoreEven() {
    assertThat(draw(new Sampling(4, 0, 1, 7))[1]).isLessThan(draw(new Sampling(0.5, 0, 1, 7))[1]);
  }

  @Test
  void topKKeepsTheLikeliest() {
    int[] counts = draw(new Sampling(1, 2, 1, 7));
    assertThat(counts[1] + counts[3]).isEqualTo(DRAWS);
    assertThat(counts[3]).isPositive();
    assertThat(draw(new Sampling(1, 1, 1, 7))[1]).isEqualTo(DRAWS);
  }

  @Test
  void topPKeepsTheTokenThatCrossesTheLimit() {
    // The likeliest has 0.64, the first two 0.88.
    assertThat(draw(new Sampling(1, 0, 0.6, 7))[1]).isEqualTo(DRAWS);
    int[] counts = draw(new Sampling(1, 0, 0.7, 7));
    assertThat(counts[1] + counts[3]).isEqualTo(DRAWS);
    assertThat(counts[3]).isPositive();
    assertThat(draw(new Sampling(1, 0, 1e-9, 7))[1]).isEqualTo(DRAWS);
  }

  @Test
  void theSameSeedGivesTheSameTokensOnEveryRankAndSequencesDiffer() {
    Sampling sampling = new Sampling(1, 0, 0.95, 42);
    assertThat(sequence(sampling, 0)).isEqualTo(sequence(sampling, 0));
    assertThat(sequence(sampling, 3)).isEqualTo(sequence(sampling, 3));
    assertThat(sequence(sampling, 0)).isNotEqualTo(sequence(sampling, 1));
    assertThat(sequence(sampling, 0)).isNotEqualTo(sequence(new Sampling(1, 0, 0.95, 43), 0));
  }

  @Test
  void logitsThatAreNoNumbersAreRefusedInsteadOfTokenZero() {
    for (float[] broken :
        List.of(
            new float[] {Float.NaN, Float.NaN},
            new float[] {1, Float.NaN, 2},
            new float[] {1, 2, Float.NaN},
            new float[] {1, Float.POSITIVE_INFINITY, 2},
            new float[] {Float.NEGATIVE_INFINITY, Float.NEGATIVE_INFINITY})) {
      for (double temperature : new double[] {0, 1}) {
        Sampler sampler = new Sampler(new Sampling(temperature, 0, 1, 1), 0);
        assertThatThrownBy(() -> sampler.choose(broken))
            .isInstanceOf(ModelException.class)
            .hasMessageContaining("not finite numbers");
      }
    }
  }

  @Test
  void settingsOutOfRangeAreRefusedWithTheirValue() {
    assertThatThrownBy(() -> new Sampling(-1, 0, 1, 0)).hasMessageContaining("-1.0");
    assertThatThrownBy(() -> new Sampling(Double.POSITIVE_INFINITY, 0, 1, 0))
        .hasMessage("The temperature is Infinity, and must be 0 or more, and finite.");
    assertThatThrownBy(() -> new Sampling(Double.NaN, 0, 1, 0)).hasMessageContaining("NaN");
    assertThatThrownBy(() -> new Sampling(1, -2, 1, 0)).hasMessageContaining("-2");
    assertThatThrownBy(() -> new Sampling(1, 0, 0, 0)).hasMessageContaining("0.0");
    assertThatThrownBy(() -> new Sampling(1, 0, 1.5, 0)).hasMessageContaining("1.5");
  }

  private static int[] draw(Sampling sampling) {
    Sampler sampler = new Sampler(sampling, 0);
    int[] counts = new int[LOGITS.length];
    for (int i = 0; i < DRAWS; i++) {
      counts[sampler.choose(LOGITS)]++;
    }
    return counts;
  }

  private static List<Integer> sequence(Sampling sampling, int index) {
    Sampler sampler = new Sampler(sampling, index);
    List<Integer> tokens = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      tokens.add(sampler.choose(LOGITS));
    }
    return tokens;
  }
}
