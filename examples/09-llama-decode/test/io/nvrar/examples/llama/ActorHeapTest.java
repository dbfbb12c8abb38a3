package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RandomModel;
import org.junit.jupiter.api.Test;

final class ActorHeapTest {
  private static final LlamaConfig CONFIG = RandomModel.of("8b", null, 0).config();
  private static final DecodeRequest REQUEST =
      new DecodeRequest(new int[][] {{1, 2, 3}}, 80, false, false, Sampling.greedy());

  @Test
  void onCpusTheWeightsAreInTheHeap() {
    // 8.03 billion parameters of four bytes, a quarter more, in MiB.
    assertThat(megabytes(new ActorPlaces(1, 1, false, true, ""))).isBetween(38_000L, 40_000L);
    assertThat(megabytes(new ActorPlaces(4, 1, false, true, ""))).isBetween(9_600L, 10_600L);
  }

  @Test
  void onGpusTheyAreNot() {
    assertThat(megabytes(new ActorPlaces(1, 1, true, true, ""))).isBetween(256L, 300L);
  }

  private static long megabytes(ActorPlaces places) {
    String size = ActorHeap.size(CONFIG, places, REQUEST);
    assertThat(size).endsWith("m");
    return Long.parseLong(size.substring(0, size.length() - 1));
  }
}
