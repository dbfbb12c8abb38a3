package io.nvrar.examples.onnx;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class ShardedModelTest {
  private static final Path MODELS = Path.of("models");
  private static final int STEPS = 3;

  /**
   * The sums have other parentheses than those of the whole model. With 33 terms of some 10 at
   * most, each rounded to 24 bits, they differ by 1e-6 of their size or so; 1e-4 leaves room for
   * other kernels.
   */
  private static final float TOLERANCE = 1e-4f;

  @Test
  void everyStepIsThatOfTheWholeModelAndTheSameBitsOnBothRanks() throws Exception {
    List<List<float[]>> ranks = ShardedModel.ranks(MODELS, STEPS);
    List<float[]> whole = ShardedModel.unsharded(MODELS, STEPS);
    for (int step = 0; step < STEPS; step++) {
      float[] expected = whole.get(step);
      float[] output = ranks.get(0).get(step);
      assertThat(expected).hasSize(24).doesNotContain(0f);
      assertThat(ShardedModel.difference(expected, output)).isLessThan(TOLERANCE);
      assertThat(ranks.get(1).get(step)).isEqualTo(output);
    }
    assertThat(whole.get(0)).isNotEqualTo(whole.get(1));
  }
}
