package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.examples.llama.weights.FloatFormat;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.RandomModel;
import io.nvrar.examples.llama.weights.RankTensors;
import io.nvrar.examples.llama.weights.Shard;
import java.util.Arrays;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** What does not fit in a GPU's memory is known before anything is loaded. */
final class MemoryNeedTest {
  private static final LlamaConfig CONFIG = RandomModel.of("8b", null, 0).config();
  private static final String GPU = "GPU 0 of rank 1";

  // Keys and values of 32 layers, 8 heads of 128 numbers, in bf16.
  private static final long BYTES_OF_PAGE = 2L * 32 * 8 * 64 * 128 * 2;

  private static final int[] SHORT = {100, 64, 65};
  private static final int[] LONG = {8192, 8192};

  @Test
  void theWeightsAreThoseOfTheRank() {
    // 8.03 billion parameters; what the driver adds to fill its pages is little.
    assertThat(need(1, true).weights()).isBetween(16_060_000_000L, 16_100_000_000L);
    assertThat(need(4, true).weights()).isBetween(4_015_000_000L, 4_100_000_000L);
  }

  @Test
  void keysAndValuesArePagesOfTheWeightsTypeOrFloat32() {
    assertThat(need(1, true).cache(SHORT)).isEqualTo((2 + 1 + 2) * BYTES_OF_PAGE);
    assertThat(need(1, false).cache(SHORT)).isEqualTo((2 + 1 + 2) * BYTES_OF_PAGE * 2);
    // Of 5 MiB each, in memory that the driver hands out by 2 MiB.
    assertThat(need(4, true).cache(SHORT)).isEqualTo(2 * (6L << 20));
  }

  @Test
  void stepsHaveTheRowsOfAPrefillOrOfAllSequences() {
    assertThat(MemoryNeed.rowsOf(new int[] {5, 6})).isEqualTo(11);
    assertThat(MemoryNeed.rowsOf(LONG)).isEqualTo(128);
    int[] many = new int[200];
    Arrays.fill(many, 64);
    assertThat(MemoryNeed.rowsOf(many)).isEqualTo(200);
    assertThat(need(1, true).steps(many)).isGreaterThan(need(1, true).steps(LONG));
  }

  @Test
  void theLargestRequestIsWhatMustFitBesideTheWeights() {
    MemoryNeed need = need(1, true);
    long all = need.weights() + need.cache(LONG) + need.steps(LONG);
    int[][] requests = {SHORT, LONG, {1}};
    assertThat(need.problem(GPU, all, requests)).isEmpty();
    assertThat(need.problem(GPU, all - 7, requests))
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "The rank's weights take %d bytes, the keys and values of 2 sequences of up to 8192 tokens %d and their steps %d, %d together, and GPU 0 of rank 1 has %d free: 7 bytes are missing.",
                need.weights(),
                need.cache(LONG),
                need.steps(LONG),
                all,
                all - 7));
    assertThat(need.problem(GPU, all - 7, new int[][] {SHORT})).isEmpty();
  }

  @Test
  void weightsAloneAndSequencesAloneAreNamedAlone() {
    MemoryNeed need = need(1, true);
    assertThat(need.problem(GPU, need.weights() - 1, new int[0][]))
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "The rank's weights take %d bytes, and GPU 0 of rank 1 has %d free: 1 bytes are missing.",
                need.weights(),
                need.weights() - 1));
    long bytes = need.cache(LONG) + need.steps(LONG);
    assertThat(need.problemOfSequences(GPU, bytes, LONG)).isEmpty();
    assertThat(need.problemOfSequences(GPU, bytes - 1, LONG))
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "The keys and values of 2 sequences of up to 8192 tokens, and their steps, take %d bytes, and GPU 0 of rank 1 has %d free: 1 bytes are missing.",
                bytes,
                bytes - 1));
  }

  @Test
  void logitsThatNoPinnedBufferHoldsAreRefused() {
    int[] many = new int[4096];
    Arrays.fill(many, 1);
    assertThat(need(1, true).problemOfSequences(GPU, Long.MAX_VALUE, many)).isEmpty();
    int[] more = Arrays.copyOf(many, 4200);
    assertThat(need(1, true).problemOfSequences(GPU, Long.MAX_VALUE, more))
        .isEqualTo(
            "The logits of 4200 sequences take 2154700800 bytes of the host's pinned memory, and at"
                + " most 2147483647 can be used.");
    assertThat(need(1, true).problem(GPU, Long.MAX_VALUE, new int[][] {SHORT, more}))
        .startsWith("The logits of 4200 sequences");
  }

  private static MemoryNeed need(int ranks, boolean fast) {
    Shard shard = Shard.of(CONFIG, 0, ranks);
    return new MemoryNeed(CONFIG, RankTensors.of(CONFIG, shard), shard, FloatFormat.BF16, fast, 0);
  }
}
