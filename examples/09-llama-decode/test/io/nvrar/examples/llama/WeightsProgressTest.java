package io.nvrar.examples.llama;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;

final class WeightsProgressTest {
  @Test
  void largeModelsAreLoadedInGigabytesASecond() {
    assertThat(sentence(5_700_000L)).isEqualTo("Loaded 5.7 MB on 4 ranks in 8.0 s.");
    assertThat(sentence(16_060_000_000L))
        .isEqualTo("Loaded 16.06 GB on 4 ranks in 8.0 s, 2.01 GB/s.");
  }

  private static String sentence(long bytes) {
    PrintWriter err = new PrintWriter(new StringWriter());
    try (WeightsProgress progress = WeightsProgress.loading(err, bytes, 4)) {
      return progress.sentence(8);
    }
  }
}
