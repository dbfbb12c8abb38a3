package io.nvrar.examples.djl;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShardedMlpTest {
  /** Rounding 32 terms of some 10 gives 1e-6 of their size; this leaves room for other kernels. */
  private static final float TOLERANCE = 1e-4f;

  @ParameterizedTest
  @ValueSource(ints = {2, 3})
  void theOutputIsThatOfOneRankAndTheSameBitsOnAll(int worldSize) {
    List<float[]> outputs = ShardedMlp.ranks(worldSize);
    float[] whole = ShardedMlp.unsharded();
    assertThat(whole).hasSize(24).doesNotContain(0f);
    assertThat(ShardedMlp.difference(whole, outputs.get(0))).isLessThan(TOLERANCE);
    assertThat(outputs).hasSize(worldSize).allMatch(one -> Arrays.equals(one, outputs.get(0)));
  }
}
