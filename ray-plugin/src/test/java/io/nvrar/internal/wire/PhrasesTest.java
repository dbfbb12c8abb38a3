package io.nvrar.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PhrasesTest {

  @Test
  void fewRanksAreNamedInTheirOrder() {
    assertThat(Phrases.ranks(2)).isEqualTo("rank 2");
    assertThat(Phrases.ranks(0, 1, 3)).isEqualTo("ranks 0, 1, 3");
    assertThat(Phrases.ranks(1, 0)).isEqualTo("ranks 1, 0");
    assertThat(Phrases.ranks(range(0, 8))).isEqualTo("ranks 0, 1, 2, 3, 4, 5, 6, 7");
  }

  @Test
  void manyRanksAreNamedByRanges() {
    assertThat(Phrases.ranks(range(1, 512))).isEqualTo("ranks 1 to 511");
    assertThat(Phrases.ranks(IntStream.range(0, 128).filter(r -> r != 63 && r != 65).toArray()))
        .isEqualTo("ranks 0 to 62, 64, 66 to 127");
    assertThat(Phrases.ranks(9, 8, 7, 0, 1, 2, 3, 4, 5)).isEqualTo("ranks 9, 8, 7, 0 to 5");
  }

  @Test
  void manyRangesAreCounted() {
    assertThat(Phrases.ranks(IntStream.range(0, 256).map(r -> 2 * r).toArray()))
        .isEqualTo("ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 240 more");
    assertThat(Phrases.ranks(IntStream.range(0, 16).map(r -> 2 * r).toArray())).endsWith("28, 30");
  }

  private static int[] range(int first, int end) {
    return IntStream.range(first, end).toArray();
  }
}
