package io.nvrar.examples.llama.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RandomModel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class StepFloorTest {
  private static final double H200 = 4.8e12;

  // What a study has computed for the same shapes; it left out the norms, and all ranks' KV heads
  // were of one size.
  @ParameterizedTest(name = "{0} on {1} GPUs, batch {2}")
  @CsvSource({
    "8b, 4, 1, 0.789",
    "8b, 4, 8, 0.838",
    "8b, 4, 32, 1.006",
    "8b, 2, 1, 1.578",
    "8b, 2, 32, 2.011",
    "70b, 4, 1, 7.258",
    "70b, 4, 32, 7.800",
    "70b, 2, 8, 14.76"
  })
  void itIsTheTimeInWhichARankReadsItsWeightsAndItsPartOfTheCache(
      String shape, int ranks, int batch, double millis) {
    LlamaConfig config = RandomModel.of(shape, null, 0).config();
    BenchCell cell = new BenchCell(batch, 1024, 1, 0, 1);
    StepFloor floor = StepFloor.of(config, ranks, cell, FloatFormat.BF16, true, H200);
    assertThat(floor.millis()).isCloseTo(millis, within(millis * 0.002));
  }

  @Test
  void aStepReadsTheEmbeddingOnlyWhereItIsTheHeadToo() {
    LlamaConfig config = RandomModel.of("8b", 1, 0).config();
    BenchCell cell = new BenchCell(1, 64, 1, 0, 1);
    StepFloor floor = StepFloor.of(config, 1, cell, FloatFormat.BF16, true, H200);
    long head = 128256L * 4096 * 2;
    long layer = (4096L * (4096 + 2 * 1024) + 4096L * 4096 + 3L * 4096 * 14336) * 2;
    long norms = 3 * 4096 * 2;
    assertThat(floor.weightBytes()).isEqualTo(head + layer + norms);
    assertThat(floor.cacheBytes()).isEqualTo(2L * 8 * 128 * 64 * 2);
  }

  @Test
  void thePlainKernelsReadACacheInFloat32() {
    LlamaConfig config = RandomModel.of("8b", 1, 0).config();
    BenchCell cell = new BenchCell(3, 128, 1, 0, 1);
    assertThat(StepFloor.of(config, 1, cell, FloatFormat.BF16, false, H200).cacheBytes())
        .isEqualTo(2 * StepFloor.of(config, 1, cell, FloatFormat.BF16, true, H200).cacheBytes());
  }

  @Test
  void theStepsOfABlockEndAtTheContext() {
    BenchCell cell = new BenchCell(1, 1024, 32, 3, 20);
    assertThat(cell.length()).isEqualTo(1024 - 33);
    assertThat(cell.meanPositions()).isEqualTo((993 + 1024) / 2.0);
  }
}
